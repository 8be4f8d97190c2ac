// apply.cc -- reads transforms from a tree, and applies them to the values that were read.
#include <cairn/orbax/transforms.h>
#include <cairn/tree.h>
#include <cairn/tree/transform/transform_keys.h>

namespace cairn::inline v0 {
namespace {

// The stored tree as a multi_value_fn gets it: the values that were read, and Placeholders for the
// others.
Tree visible_tree(const TransformPlan& plan, const std::vector<const Tree*>& values) {
  if (plan.stored.empty()) return Tree(Tree::Dict{});
  std::vector<TreeEntry> entries;
  entries.reserve(plan.stored.size());
  for (std::size_t i = 0; i < plan.stored.size(); ++i)
    entries.push_back({plan.stored[i], values[i] != nullptr ? *values[i] : Tree(Placeholder{})});
  return unflatten(std::move(entries));
}

bool is_empty(const Tree& target) {
  const auto leaves = flatten(target);
  return leaves.size() == 1 && leaves[0].path.empty() &&
         std::holds_alternative<EmptyNode>(leaves[0].value.value());
}

}  // namespace

Transforms flatten_transforms(const Tree& tree) {
  return flatten_transform_leaves<Transform>(tree, [](const Tree& leaf) {
    const auto* transform = leaf.custom<Transform>();
    return transform != nullptr ? std::optional(*transform) : std::nullopt;
  });
}

Tree apply_transforms(const TransformPlan& plan, std::vector<Tree> values, const Tree& target) {
  if (values.size() != plan.reads.size())
    throw Error(Code::kInvalidArgument, std::to_string(values.size()) + " values for " +
                                            std::to_string(plan.reads.size()) + " planned reads");
  if (is_empty(target)) return Tree(EmptyNode::kDict);
  std::vector<const Tree*> read(plan.stored.size());
  for (std::size_t i = 0; i < values.size(); ++i) read[plan.reads[i].stored] = &values[i];
  const Tree visible = has_multi_value_fn(plan.transforms) ? visible_tree(plan, read) : Tree();
  std::vector<TreeEntry> restored;
  for (const TransformOutput& output : plan.outputs) {
    if (output.steps.empty()) continue;
    Tree value;
    for (const TransformStep& step : output.steps) {
      // A step without a stored value is a call of a transform's multi_value_fn.
      const Transform* transform =
          step.transform ? &plan.transforms[*step.transform].second : nullptr;
      with_context([&] { return "transform of '" + output.key + "'"; },
                   [&] {
                     if (step.stored)
                       value = transform != nullptr && transform->value_fn
                                   ? transform->value_fn(*read[*step.stored])
                                   : *read[*step.stored];
                     else if (transform != nullptr)
                       value = transform->multi_value_fn(output.key, visible);
                   });
    }
    restored.push_back({output.path, std::move(value)});
  }
  return fill_target(target, std::move(restored));
}

Tree apply_transforms(const Tree& stored, const Tree& target, Transforms transforms,
                      UnmentionedKeys unmentioned) {
  std::vector<TreeEntry> leaves = flatten(stored, DictOrder::kSorted);
  std::vector<KeyPath> paths;
  paths.reserve(leaves.size());
  for (const TreeEntry& leaf : leaves) paths.push_back(leaf.path);
  const TransformPlan plan =
      plan_transforms(std::move(paths), target, std::move(transforms), unmentioned);
  std::vector<Tree> values;
  values.reserve(plan.reads.size());
  for (const PlannedRead& read : plan.reads) values.push_back(std::move(leaves[read.stored].value));
  return apply_transforms(plan, std::move(values), target);
}

}  // namespace cairn::inline v0
