// schemas.h -- the schemas of cli/schemas, which are a part of the command.
#pragma once

#include <span>
#include <string_view>

namespace cairn::cli {

struct Schema {
  std::string_view name;  // "ls": its file without ".json"
  std::string_view json;
};

// Sorted by name.
std::span<const Schema> schemas();

}  // namespace cairn::cli
