// transformed_checkpoint.h -- the checkpoint that rules make from another one. It is lazy: it reads
// from the source only what is read from it.
#pragma once

#include <cairn/convert.h>
#include <cairn/tools/transform/lazy_affine.h>
#include <cairn/tools/transform/transform_leaves.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// What rules have made of the leaves of a checkpoint.
struct RuleResult {
  std::vector<TransformedLeaf> leaves;
  std::vector<TransformValue> values = {};
  std::vector<ScaledLeaves> scaled = {};
  bool two_sided = false;
  std::string identity;  // a text that differs where rules or their values do
};

// The checkpoint with these leaves, and what is made of what. Uses the options' resources and
// scratch.
Transformed transformed_checkpoint(std::shared_ptr<const Checkpoint> source, RuleResult result,
                                   const TransformOptions& options);

}  // namespace cairn::inline v0
