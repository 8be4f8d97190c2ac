// map_items.h -- the arrays of a rule on their way from one side to the other.
#pragma once

#include <cairn/tools/model_map/model_map.h>
#include <cairn/tools/model_map/scope.h>
#include <cairn/tools/transform/lazy_affine.h>
#include <cairn/tools/transform/lazy_array.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The arrays of one leaf, or of one list of leaves.
struct MapItem {
  Indices indices;  // of the loop variables that are not stacked
  Texts texts;
  std::vector<LazyPtr> arrays;  // one for each name of the side
  std::size_t source = 0;       // the stored leaf of the first
};

// What steps need beside the arrays.
struct StepContext {
  Scope& scope;
  const SourceLeaves& leaves;  // of the source, for messages
  NamedExpressions counts;     // of loop variables
  std::size_t names = 1;       // names on the side that is made
  const MapRule& rule;
  std::vector<ScaledLeaves>& scaled;
};

// Applies one step to all items. Throws invalid_argument that names the step.
void apply_step(const MapStep& step, std::vector<MapItem>& items, const StepContext& context);

// An expression that must be an integer; nullopt if it is null.
std::optional<std::int64_t> integer_value(const Expression& expression, const Scope& scope);
// The count of a loop variable, with the indices that the scope has; nullopt if it is not given.
std::optional<std::int64_t> count_of(const std::string& variable, const NamedExpressions& counts,
                                     const Scope& scope);

}  // namespace cairn::inline v0
