// transform_leaves.h -- applies rules to the leaves of a checkpoint without reading any elements.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tools/transform/lazy_array.h>
#include <cairn/tools/transform/transform_rules.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// One leaf of the result.
struct TransformedLeaf {
  std::string key;         // its steps joined with '/'
  std::size_t source = 0;  // the stored leaf, or the first stored leaf that it is computed from
  LazyPtr array;           // null if it is not an array or cannot be read
  bool computed = false;   // false: the stored leaf itself, perhaps under another key
  bool mentioned = false;
};

// Applies the rules. Throws invalid_argument, naming the rule, for a rule that matches nothing,
// arrays that do not fit, and a key that already exists.
std::vector<TransformedLeaf> transform_leaves(const Checkpoint& source,
                                              const TransformRules& rules);

}  // namespace cairn::inline v0
