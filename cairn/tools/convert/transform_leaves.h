// transform_leaves.h -- the leaves of a checkpoint after rules have been applied to them; nothing
// is read.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tools/convert/lazy_array.h>
#include <cairn/tools/convert/transform_rules.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn {

struct TransformedLeaf {
  std::string key;         // joined with '/'
  std::size_t source = 0;  // the stored leaf that it is, or the first one it is made of
  LazyPtr array;           // null for what is no array, or cannot be read
  bool computed = false;   // not the stored leaf itself under another key
  bool mentioned = false;
};

// Throws invalid_argument that names the rule: one that matches nothing, arrays that do not fit, a
// key that is there already.
std::vector<TransformedLeaf> transform_leaves(const Checkpoint& source,
                                              const TransformRules& rules);

}  // namespace cairn
