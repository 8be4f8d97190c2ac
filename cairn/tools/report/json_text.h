// json_text.h -- the pieces that several JSON documents share.
#pragma once

#include <cairn/base/json.h>
#include <cairn/types.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

inline Json shape_json(std::span<const std::int64_t> shape) {
  JsonArray out;
  out.reserve(shape.size());
  for (const auto n : shape) out.emplace_back(n);
  return out;
}

// JSON has no NaN or infinity: they become null.
Json number_json(double value);
// Names and texts may be any bytes: what is not UTF-8, which JSON cannot hold, becomes \xNN.
Json text_json(std::string_view text);
Json strings_json(const std::vector<std::string>& texts);
// A list of objects, one a line: for people's eyes, grep and diff.
std::string lines_json(const JsonArray& entries);

}  // namespace cairn
