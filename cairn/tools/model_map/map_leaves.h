// map_leaves.h -- applies two-sided rules to the leaves of a checkpoint without reading elements.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tools/model_map/map_items.h>
#include <cairn/tools/model_map/model_map.h>
#include <cairn/tools/transform/transformed_checkpoint.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// What a map is applied to, and with which values.
struct MapInput {
  const Checkpoint& source;
  const SourceLeaves& leaves;  // of the source
  const ModelMap& map;
  Json config;  // the model's config.json; null if there is none
  // Options and values of `let` that the user gives, as text: JSON, else a string.
  std::vector<std::pair<std::string, std::string>> values;
};

// Applies the rules from side `from` (0 or 1) to the other one. Throws invalid_argument that names
// the rule; for leaves that are missing or that no rule takes, it lists the first ten.
RuleResult map_leaves(const MapInput& input, std::size_t from);

// The number of leaves that have a name of each side.
std::array<std::size_t, 2> leaves_of_sides(const MapInput& input);

}  // namespace cairn::inline v0
