// transform_leaves.h -- applies rules to the leaves of a checkpoint without reading any elements.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tools/transform/lazy_array.h>
#include <cairn/tools/transform/transform_rules.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Where a key is split into the steps of a path.
enum class KeySplit : std::uint8_t { kEverySlash, kLastSlash, kNowhere };

// One leaf of the result.
struct TransformedLeaf {
  static constexpr auto kNoSource = static_cast<std::size_t>(-1);

  std::string key;  // its steps joined with '/'
  // the stored leaf, or the first stored leaf that it is computed from; kNoSource: from none
  std::size_t source = 0;
  LazyPtr array;          // null if it is not an array or cannot be read
  bool computed = false;  // false: the stored leaf itself, perhaps under another key
  bool mentioned = false;
  KeySplit split = KeySplit::kEverySlash;
};

// Applies the rules. Throws invalid_argument, naming the rule, for a rule that matches nothing,
// arrays that do not fit, and a key that already exists.
std::vector<TransformedLeaf> transform_leaves(const Checkpoint& source,
                                              const TransformRules& rules);

}  // namespace cairn::inline v0
