// pytree_transform.cc -- selects the leaves that a transform needs, with their arguments, and
// builds the transformed tree.
#include <cairn/orbax/restore/pytree_transform.h>

#include <cairn/handlers/leaf_args.h>
#include <cairn/handlers/read_leaves.h>
#include <cairn/orbax/restore/leaf_restorer.h>
#include <cairn/tree/names.h>
#include <cairn/tree/transform/transform_keys.h>

#include <map>
#include <memory>
#include <optional>
#include <string_view>
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

// The trees that a LegacyTransformFn receives: leaf types, empty nodes and aggregated values; and
// the infos, with the same empty nodes.
StoredStructure structure_of(const std::shared_ptr<const StoredItem>& item,
                             const RestoreContext& context) {
  const bool rich_types = context.options->pytree_metadata_options.support_rich_types;
  const std::vector<TensorInfo>& leaves = item->item().tensors;
  std::vector<TreeEntry> types, infos;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const KeyPath& path = leaves[i].path;
    if (const auto empty = empty_node_of(leaves[i].typestr, rich_types)) {
      types.push_back({path, Tree(*empty)});
      infos.push_back({path, Tree(*empty)});
      continue;
    }
    auto value = aggregated_value(item->item(), i);
    ParamInfo info = stored_param_info(item, leaves[i], context);
    info.skip_deserialize = value.has_value();
    infos.push_back({path, Tree(CustomLeaf::of(std::move(info)))});
    types.push_back(
        {path, value ? *std::move(value) : Tree(CustomLeaf::of(LeafType{leaves[i].typestr}))});
  }
  return {unflatten(std::move(types)), unflatten(std::move(infos))};
}

// Throws unless the function returned two trees of one structure.
void check_returned(const StoredStructure& wanted) {
  const auto differences =
      structure_differences(as_stored(wanted.structure), as_stored(wanted.param_infos));
  if (differences.empty()) return;
  throw Error(Code::kInvalidArgument,
              "legacy_transform_fn returned trees of different structures: at " +
                  quoted_leaf_text(differences[0].path) + " the structure has " +
                  differences[0].source + ", the infos have " + differences[0].target);
}

// The arguments of a leaf, with the type that the function gave it unless they name another.
AnyRestoreArgs with_type(AnyRestoreArgs args, const std::string& value_type) {
  if (!handlers::restore_type_of(args) && !value_type.empty())
    std::visit([&](auto& of) { of.restore_type = RestoreType(value_type); }, args);
  return args;
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
  NodeFinder restore_args(args.restore_args);
  for (const TransformOutput& output : plan.outputs)
    output_args->emplace(output.key, restore_args_at(restore_args, output.path));
  std::vector<WantedLeaf> wanted;
  for (const PlannedRead& read : plan.reads) {
    WantedLeaf& leaf = wanted.emplace_back();
    leaf.path = plan.stored[read.stored];
    leaf.position = read.stored;
    leaf.args = read.reason == ReadReason::kInput
                    ? input_args((*args.transforms)[read.transform].second, read.input)
                    : restore_args_at(restore_args, plan.outputs[read.output].path);
  }
  std::vector<Tree> values;
  for (TreeEntry& entry : LeafRestorer(item, context).run(wanted))
    values.push_back(std::move(entry.value));
  return apply_transforms(plan, std::move(values), *args.item);
}

Tree restore_by_function(const std::shared_ptr<const StoredItem>& item,
                         const PyTreeRestoreArgs& args, const RestoreContext& context) {
  const std::vector<TensorInfo>& leaves = item->item().tensors;
  std::map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < leaves.size(); ++i) by_name.emplace(leaves[i].name, i);
  const StoredStructure wanted =
      args.legacy_transform_fn(args.item.value_or(Tree()), structure_of(item, context));
  check_returned(wanted);
  NodeFinder restore_args(args.restore_args), structure_finder(wanted.structure);
  std::vector<WantedLeaf> reads;
  std::vector<std::optional<Tree>> values;  // of all infos; none: of the next leaf that is read
  for (const TreeEntry& entry : flatten(wanted.param_infos)) {
    const auto* info = entry.value.custom<ParamInfo>();
    if (info == nullptr) continue;
    AnyRestoreArgs leaf_args = restore_args_at(restore_args, entry.path);
    const Tree& leaf = *structure_finder.at(entry.path);
    const auto* type = leaf.custom<LeafType>();
    if (type == nullptr) {
      values.emplace_back(with_context([&] { return leaf_text(entry.path); },
                                       [&] { return with_restore_args(leaf, leaf_args); }));
    } else if (info->skip_deserialize) {
      values.emplace_back(Tree(Placeholder{}));
    } else {
      const auto it = by_name.find(info->name);
      if (it == by_name.end())
        throw Error(Code::kNotFound, leaf_text(entry.path) + ": legacy_transform_fn needs '" +
                                         info->name + "', which is not stored");
      values.emplace_back();
      reads.push_back({entry.path, it->second, with_type(std::move(leaf_args), type->value_type)});
    }
  }
  std::vector<TreeEntry> restored = LeafRestorer(item, context).run(reads);
  std::size_t next = 0, next_read = 0;
  return map_leaves(wanted.param_infos, [&](const KeyPath& /*path*/, const Tree& leaf) {
    if (leaf.custom<ParamInfo>() == nullptr) return leaf;
    std::optional<Tree>& value = values[next++];
    return value ? *std::move(value) : std::move(restored[next_read++].value);
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
