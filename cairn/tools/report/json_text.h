// json_text.h -- helpers that several JSON documents share.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/compression.h>
#include <cairn/diff.h>
#include <cairn/inspect.h>
#include <cairn/types.h>
#include <cairn/verify_report.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

inline Json shape_json(std::span<const std::int64_t> shape) {
  JsonArray out;
  out.reserve(shape.size());
  for (const auto n : shape) out.emplace_back(n);
  return out;
}

// NaN and infinity become null, because JSON lacks them.
Json number_json(double value);
// Names and strings may hold any bytes. Bytes that are not UTF-8, which JSON cannot hold, become
// \xNN.
Json text_json(std::string_view text);
Json strings_json(const std::vector<std::string>& texts);
// "note", "not_checked", "damage"
std::string_view severity_text(Severity severity);
// "good", "not_checked", "damaged"
std::string_view verdict_text(Verdict verdict);
// "same", "different", "only_in_a", "only_in_b", "unreadable"
std::string_view state_text(LeafState state);
// A list of objects with item, path, record and text.
Json missing_json(const std::vector<MissingPart>& parts);
// A list of objects with `subject` and "why".
Json reasons_json(const std::vector<std::pair<std::string, std::string>>& entries,
                  const char* subject);
// A list of objects with "name" and "format"; null: the source is as it is stored.
inline Json dequantized_json(
    const std::optional<std::vector<std::pair<std::string, std::string>>>& leaves) {
  if (!leaves) return {};
  JsonArray out;
  for (const auto& [name, format] : *leaves)
    out.push_back(JsonObject{{"name", text_json(name)}, {"format", format}});
  return out;
}
// null if the compression did not depend on time.
Json compression_json(const CompressionReport& report);
// Passes a list of `count` objects to `sink`, one a line, so that people, grep and diff can read
// it. Makes one object at a time, because a checkpoint may have a million leaves.
void lines_json(std::size_t count, const std::function<Json(std::size_t)>& entry,
                const TextSinkFn& sink);

}  // namespace cairn::inline v0
