// leaf_restorer.cc -- restores the values of stored leaves.
#include <cairn/orbax/restore/leaf_restorer.h>

#include <cairn/array/box.h>
#include <cairn/base/observer/observe.h>
#include <cairn/handlers/read_leaves.h>
#include <cairn/orbax/restore/multiprocess_restore.h>
#include <cairn/tree/leaf_value.h>
#include <cairn/tree/python_number.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

// ---- values in the aggregate file ----

Array cast(const Array& array, DType dtype) {
  if (array.dtype() == dtype) return array;
  Array out = Array::allocate(dtype, array.shape());
  cast_elements(array.view(), out.mutable_view());
  return out;
}

// Reshapes the array and places it on devices as ArrayRestoreArgs requests. The new shape must have
// the same number of elements.
Tree placed(Array array, const ArrayRestoreArgs& args) {
  if (const auto& shape = args.global_shape ? args.global_shape : args.shape;
      shape && *shape != array.shape()) {
    if (element_count(*shape) != element_count(array.shape()))
      throw Error(Code::kInvalidArgument, "is stored with shape " + shape_text(array.shape()) +
                                              ", which cannot be reshaped to " +
                                              shape_text(*shape));
    const auto kept = std::make_shared<const Array>(array);
    array = Array(array.dtype(), array.element_size(), *shape, kept, kept->bytes().data());
  }
  // For these values, unlike for stored arrays, the sharding takes precedence.
  const auto on = [&](Sharding sharding) {
    const std::size_t rank = array.shape().size();
    ShardedArray out = ShardedArray::from_array(array, handlers::for_rank(sharding, rank));
    out.sharding = std::move(sharding);  // keeps the sharding as the caller gave it
    return Tree(CustomLeaf::of(std::move(out)));
  };
  if (args.sharding) return on(*args.sharding);
  if (args.mesh && args.mesh_axes) return on(named_sharding(*args.mesh, *args.mesh_axes));
  throw Error(Code::kInvalidArgument,
              "the sharding of a jax.Array cannot be None, and the aggregate file stores no "
              "shardings; give sharding, or mesh and mesh_axes");
}

}  // namespace

std::optional<Tree> aggregated_value(const PytreeItem& item, std::size_t position) {
  const LeafValue& value = item.values[position];
  if (value.inside != nullptr) {
    const TensorInfo& leaf = item.tensors[position];
    return array_leaf(leaf, inside_array(*value.inside, leaf));
  }
  if (value.text != nullptr && value.is_aggregated) return Tree(*value.text);
  return std::nullopt;
}

Tree with_restore_args(Tree value, const AnyRestoreArgs& args) {
  const std::optional<NumpyScalar> number = number_of(value);
  const auto dtype = handlers::dtype_of(args);
  // A NumPy number that is converted becomes a Python number, which cannot be on devices.
  if (number && dtype) return python_number(cast(rank_0(*number), *dtype));
  const ArrayRestoreArgs* placed_by = array_restore_args(args);
  if (const Array* array = value.array()) {
    Array out = dtype ? cast(*array, *dtype) : *array;
    return placed_by != nullptr ? placed(std::move(out), *placed_by) : Tree(std::move(out));
  }
  if (placed_by != nullptr && std::holds_alternative<NumpyScalar>(value.value()))
    return placed(rank_0(*number), *placed_by);
  return value;
}

std::optional<EmptyNode> empty_node_of(std::string_view kind, bool rich_types) {
  const auto node = empty_node_from_name(kind);
  return node == EmptyNode::kNamedTuple && !rich_types ? EmptyNode::kNone : node;
}

std::vector<TreeEntry> LeafRestorer::run(const std::vector<WantedLeaf>& leaves) {
  const Stopwatch watch;
  std::vector<TreeEntry> out(leaves.size());
  context_.multiprocess->begin([&] { return prepare(leaves, out); });
  context_.multiprocess->each_for_itself([&] {
    for (const Batch& batch : batches_)
      if (!batch.handler->restores_together()) deserialize(batch, out);
  });
  for (const Batch& batch : batches_)
    if (batch.handler->restores_together()) deserialize(batch, out);
  observe(context_.options->observer, EventLevel::kInfo, "restore.finished",
          {{"path", item_->item().item.path},
           {"leaves", static_cast<std::int64_t>(leaves.size())},
           {"bytes", item_->bytes_read()}},
          watch.elapsed());
  return out;
}

// Prepares the batches. Returns a description of the leaves that are restored together with other
// processes.
std::string LeafRestorer::prepare(const std::vector<WantedLeaf>& leaves,
                                  std::vector<TreeEntry>& out) {
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    out[i].path = leaves[i].path;
    const std::size_t position = leaves[i].position;
    if (auto value = aggregated_value(item_->item(), position))
      out[i].value =
          with_context([&] { return item_->item().tensors[position].name; },
                       [&] { return with_restore_args(*std::move(value), leaves[i].args); });
    else
      add(leaves[i], i, out[i]);
  }
  std::string together;
  for (const Batch& batch : batches_)
    if (batch.handler->restores_together())
      together += (together.empty() ? "" : ", ") + batch.handler->typestr();
  return together;
}

void LeafRestorer::deserialize(const Batch& batch, std::vector<TreeEntry>& out) {
  std::vector<Tree> values = batch.handler->deserialize(batch.infos, batch.args);
  if (values.size() != batch.infos.size())
    throw Error(Code::kFailedPrecondition, "the type handler of '" + batch.handler->typestr() +
                                               "' returned " + std::to_string(values.size()) +
                                               " values for " + std::to_string(batch.infos.size()) +
                                               " leaves");
  for (std::size_t i = 0; i < values.size(); ++i) out[batch.leaves[i]].value = std::move(values[i]);
}

void LeafRestorer::add(const WantedLeaf& leaf, std::size_t number, TreeEntry& out) {
  const TensorInfo& stored = item_->item().tensors[leaf.position];
  const auto wanted = handlers::restore_type_of(leaf.args);
  const std::string kind =
      stored.typestr.empty() ? std::string(default_restore_type(leaf.args)) : stored.typestr;
  const std::string* typestr = wanted && wanted->typestr() != nullptr ? wanted->typestr()
                               : wanted                               ? nullptr
                                                                      : &kind;
  // A leaf that is restored as an empty node is not read.
  if (const auto empty =
          typestr == nullptr
              ? std::nullopt
              : empty_node_of(*typestr,
                              context_.options->pytree_metadata_options.support_rich_types)) {
    out.value = Tree(*empty);
    return;
  }
  TypeHandlerPtr handler = with_context([&] { return stored.name + ": cannot be restored"; },
                                        [&] {
                                          return typestr != nullptr
                                                     ? context_.registry->get(*typestr)
                                                     : context_.registry->get(*wanted->type());
                                        });
  Batch& batch = batch_of(handler);
  batch.infos.push_back(stored_param_info(item_, stored, context_));
  batch.args.push_back(leaf.args);
  batch.leaves.push_back(number);
}

LeafRestorer::Batch& LeafRestorer::batch_of(const TypeHandlerPtr& handler) {
  const auto it = std::find_if(batches_.begin(), batches_.end(),
                               [&](const Batch& batch) { return batch.handler == handler; });
  if (it != batches_.end()) return *it;
  batches_.push_back({handler, {}, {}, {}});
  return batches_.back();
}

}  // namespace cairn::inline v0::orbax
