// pytree_transform.cc -- selects the leaves that a transform needs, with their arguments, and
// builds the transformed tree.
#include <cairn/orbax/restore/pytree_transform.h>

#include <cairn/handlers/leaf_args.h>
#include <cairn/orbax/restore/leaf_restorer.h>
#include <cairn/tree/transform/transform_keys.h>

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

AnyRestoreArgs input_args(const RestoreTransform& transform, std::size_t input) {
  return input < transform.input_args.size() ? transform.input_args[input]
                                             : AnyRestoreArgs(RestoreArgs{});
}

// The arguments of each output, by its key.
using OutputArgs = std::unordered_map<std::string, AnyRestoreArgs>;

// Returns the transforms with plain functions; these find their arguments in `outputs` later.
Transforms plain_transforms(const RestoreTransforms& given,
                            const std::shared_ptr<const OutputArgs>& outputs) {
  Transforms transforms;
  for (const auto& [pattern, restore] : given) {
    Transform& transform = transforms.emplace_back(pattern, restore.transform).second;
    if (!restore.multi_value_fn) continue;
    if (transform.multi_value_fn)
      throw Error(Code::kInvalidArgument,
                  "transform '" + pattern +
                      "': RestoreTransform::multi_value_fn and transform.multi_value_fn exclude "
                      "each other");
    transform.multi_value_fn = [fn = restore.multi_value_fn, outputs](std::string_view key,
                                                                      const Tree& stored) {
      return fn(key, stored, outputs->at(std::string(key)));
    };
  }
  return transforms;
}

Tree leaf_type_tree(const TensorInfo& leaf, bool rich_types) {
  if (const auto empty = empty_node_of(leaf.typestr, rich_types)) return Tree(*empty);
  return Tree(CustomLeaf::of(LeafType{leaf.typestr}));
}

}  // namespace

Tree restore_transformed(const std::shared_ptr<const StoredItem>& item,
                         const PyTreeRestoreArgs& args, const RestoreContext& context) {
  if (!args.item)
    throw Error(Code::kInvalidArgument,
                "transforms need an item: a tree with the structure of the result");
  if (!args.restore_args)
    throw Error(Code::kInvalidArgument,
                "transforms need restore_args with the structure of the result");
  std::vector<KeyPath> stored;
  for (const TensorInfo& leaf : item->item().tensors) stored.push_back(leaf.path);
  const auto output_args = std::make_shared<OutputArgs>();
  const TransformPlan plan = plan_transforms(
      std::move(stored), *args.item, plain_transforms(*args.transforms, output_args),
      args.transforms_default_to_original ? UnmentionedKeys::kStored : UnmentionedKeys::kTarget);
  for (const TransformOutput& output : plan.outputs)
    output_args->emplace(output.key, restore_args_at(args.restore_args, output.path));
  std::vector<WantedLeaf> wanted;
  for (const PlannedRead& read : plan.reads) {
    WantedLeaf& leaf = wanted.emplace_back();
    leaf.path = plan.stored[read.stored];
    leaf.position = read.stored;
    leaf.args = read.reason == ReadReason::kInput
                    ? input_args((*args.transforms)[read.transform].second, read.input)
                    : restore_args_at(args.restore_args, plan.outputs[read.output].path);
  }
  std::vector<Tree> values;
  for (TreeEntry& entry : LeafRestorer(item, context).run(wanted))
    values.push_back(std::move(entry.value));
  return apply_transforms(plan, std::move(values), *args.item);
}

Tree restore_by_function(const std::shared_ptr<const StoredItem>& item,
                         const PyTreeRestoreArgs& args, const RestoreContext& context) {
  const bool rich_types = context.options->pytree_metadata_options.support_rich_types;
  const std::vector<TensorInfo>& leaves = item->item().tensors;
  std::map<std::string, std::size_t> by_name;
  std::vector<TreeEntry> types, infos;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    by_name.emplace(leaves[i].name, i);
    Tree type = leaf_type_tree(leaves[i], rich_types);
    infos.push_back(
        {leaves[i].path, type.custom<LeafType>() == nullptr
                             ? type
                             : Tree(CustomLeaf::of(stored_param_info(item, leaves[i], context)))});
    types.push_back({leaves[i].path, std::move(type)});
  }
  const StoredStructure wanted = args.legacy_transform_fn(
      args.item.value_or(Tree()), {unflatten(std::move(types)), unflatten(std::move(infos))});
  std::vector<WantedLeaf> reads;
  for (const TreeEntry& entry : flatten(wanted.param_infos)) {
    const auto* info = entry.value.custom<ParamInfo>();
    if (info == nullptr || info->skip_deserialize) continue;
    const auto it = by_name.find(info->name);
    if (it == by_name.end())
      throw Error(Code::kNotFound, path_text(entry.path) + ": legacy_transform_fn needs '" +
                                       info->name + "', which is not stored");
    reads.push_back({entry.path, it->second, restore_args_at(args.restore_args, entry.path)});
  }
  std::vector<TreeEntry> restored = LeafRestorer(item, context).run(reads);
  std::size_t next = 0;
  return map_leaves(wanted.param_infos, [&](const KeyPath& /*path*/, const Tree& leaf) {
    const auto* info = leaf.custom<ParamInfo>();
    if (info == nullptr) return leaf;
    return info->skip_deserialize ? Tree(Placeholder{}) : std::move(restored[next++].value);
  });
}

}  // namespace cairn::inline v0::orbax

namespace cairn::inline v0 {

RestoreTransforms flatten_restore_transforms(const Tree& tree) {
  return flatten_transform_leaves<RestoreTransform>(tree, [](const Tree& leaf) {
    if (const auto* restore = leaf.custom<RestoreTransform>()) return std::optional(*restore);
    const auto* plain = leaf.custom<Transform>();
    return plain != nullptr ? std::optional(RestoreTransform{*plain}) : std::nullopt;
  });
}

}  // namespace cairn::inline v0
