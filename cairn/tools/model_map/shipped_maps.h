// shipped_maps.h -- the maps of the folder maps/, which are a part of the library.
#pragma once

#include <span>
#include <string_view>

namespace cairn::inline v0 {

struct ShippedMap {
  std::string_view name;  // "llama": its file without ".json"
  std::string_view json;
};

// Sorted by name.
std::span<const ShippedMap> shipped_maps();

}  // namespace cairn::inline v0
