// to_orbax.cc -- converts a plan to leaves to save; the writer reads their elements when it needs
// them.
#include <cairn/tools/convert/to_orbax.h>

#include <cairn/array/byte_count.h>
#include <cairn/base/work_partition.h>
#include <cairn/distributed/process_group.h>
#include <cairn/orbax/save/save.h>
#include <cairn/tools/convert/kept_types.h>
#include <cairn/tools/source/consistency.h>
#include <cairn/tree/metadata/key_faults.h>
#include <cairn/tree/metadata/key_types.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kCrumbs = 8;  // how many times smaller than wanted a chunk may become

Relayout relayout_of(const ConvertPlan& plan, std::size_t number) {
  return plan.relayouts.empty() ? Relayout() : plan.relayouts[number];
}

// Returns the kind of leaf as which Orbax stores a tensor.
std::string kind_of(const TensorInfo& tensor, const Relayout& relayout) {
  if (tensor.is_string()) return "string";
  if (!tensor.is_array()) return tensor.typestr;
  if (!relayout.sharding.empty()) return "jax.Array";  // host arrays cannot have shardings
  if (orbax::is_array_kind(tensor.typestr)) return tensor.typestr;
  return tensor.typestr == "np.generic" || tensor.typestr == "complex" ? "scalar" : "np.ndarray";
}

// Describes the array that a tensor becomes.
StoreArray make_array(const Checkpoint& source, const ConvertPlan& plan, std::size_t number) {
  const TensorInfo& tensor = source.tensors()[plan.indices[number]];
  StoreArray array;
  array.name = param_name(plan.paths[number]);
  array.dtype = plan.targets[number].dtype;
  array.source_dtype = tensor.dtype;
  array.shape = tensor.shape;
  // Keeps the stored pieces, because each later reader may want its own piece.
  array.write_shape = tensor.chunk_shape;
  for (std::size_t d = 0; d < array.write_shape.size(); ++d)
    array.write_shape[d] = std::clamp<std::int64_t>(array.write_shape[d], 1,
                                                    std::max<std::int64_t>(1, tensor.shape[d]));
  array.sharding = tensor.sharding;
  array.random_key_impl = source.random_key_impl(plan.indices[number]);
  const Relayout relayout = relayout_of(plan, number);
  if (!relayout.piece.empty()) array.write_shape = relayout.piece;
  if (!relayout.sharding.empty()) array.sharding = relayout.sharding;
  return array;
}

// Processes write whole chunks, so all would wait for the process with a chunk larger than a share.
// Such a chunk is cut. A host array may be cut between any rows. A device array may be cut only
// where the chunks divide its pieces and do not become too small.
void cut_for(const distributed::ProcessGroup& group, std::uint64_t share_bytes,
             const ConvertOptions& options, StoreArray& array) {
  const auto most = std::max(share_bytes, kLeastPart);
  Shape piece = handlers::piece_shape(array);
  const auto bytes = [&] { return byte_count(piece, array.dtype); };
  if (group.is_single() || bytes() <= most) return;
  if (array.device_array) {
    const auto target =
        std::min(options.orbax.chunk_bytes.value_or(INT64_MAX), static_cast<std::int64_t>(most));
    piece = zarr::choose_chunk_shape(array.shape, piece, dtype_size(array.dtype),
                                     {.bytes = target, .shard_axes = {}});
    if (bytes() * kCrumbs > most) array.chunk_byte_size = target;
    return;
  }
  for (std::int64_t& extent : piece) {
    const std::uint64_t row = bytes() / static_cast<std::uint64_t>(extent);
    extent = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(most / std::max<std::uint64_t>(row, 1)), 1, extent);
  }
  array.write_shape = std::move(piece);
}

SaveOptions save_options(const ConvertPlan& plan, const ConvertOptions& options) {
  SaveOptions save;
  save.use_ocdbt = plan.report.format != TargetFormat::kOrbaxFiles;
  save.use_zarr3 = plan.report.format == TargetFormat::kOrbaxZarr3;
  save.compression = options.orbax.compression;
  save.chunk_bytes = options.orbax.chunk_bytes;
  if (options.orbax.target_file_bytes) save.target_file_bytes = *options.orbax.target_file_bytes;
  save.durability = options.orbax.durability;
  save.commit_protocol = options.orbax.commit_protocol;
  save.if_exists = options.if_exists;
  save.store = options.store;
  save.resources = options.resources;
  save.progress = options.progress;
  return save;
}

// Makes the trees that a conversion saves.
class TreeMaker {
 public:
  TreeMaker(const Checkpoint& source, const ConvertPlan& plan, const ConvertOptions& options)
      : source_(source),
        plan_(plan),
        options_(options),
        group_(options.multiprocessing),
        from_(orbax_source(source)),
        save_(save_options(plan, options)) {}

  // The tree of the leaves with these numbers in the plan; `from` is its item's name in an Orbax
  // source.
  orbax::SaveItem make(std::vector<std::size_t> numbers, const std::string& from) const {
    if (!keeps_order())
      std::stable_sort(numbers.begin(), numbers.end(), [&](std::size_t a, std::size_t b) {
        return key_path_less(plan_.paths[a], plan_.paths[b]);
      });
    orbax::SaveItem item;
    item.dealt = true;
    item.tree.leaves.reserve(numbers.size());
    std::vector<std::size_t> tensors;  // parallel to the item's arrays
    for (const std::size_t number : numbers) add_leaf(number, item, tensors);
    if (const auto types = plan_.types.find(from); types != plan_.types.end())
      item.tree.rich_types = types_text(types->second, item.tree.leaves);
    else
      keep_restorable(item.tree.leaves);
    if (const auto types = plan_.key_types.find(from); types != plan_.key_types.end())
      item.tree.key_types = key_types_text(types->second);
    item.fetch = [this, tensors = std::move(tensors)](std::span<ReadRequest> requests) {
      for (ReadRequest& request : requests) request.tensor = tensors[request.tensor];
      source_.read(requests, {});
    };
    return item;
  }

  // One tree, which is the whole checkpoint or its only item.
  orbax::ItemsSave make_one() const {
    std::vector<std::size_t> numbers(plan_.indices.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    orbax::ItemsSave save;
    const bool single = from_ != nullptr && from_->opened_items().size() == 1;
    const std::string item = single ? from_->opened_items()[0].item.name : "";
    save.trees.push_back({.item = make(std::move(numbers), item), .options = save_});
    if (!single) {
      save.content.custom_metadata = checkpoint_metadata(source_.info());
      return save;
    }
    save.trees[0].item.tree.custom_metadata = from_->opened_items()[0].metadata.custom_metadata;
    save.content = content_of(*from_);
    save.content.items.clear();
    return save;
  }

  // The items of the source.
  orbax::ItemsSave make_items() const {
    orbax::ItemsSave save;
    save.content = content_of(*from_);
    const auto handlers = std::exchange(save.content.items, {});
    const auto handler_of = [&](const std::string& item) {
      const auto found = std::find_if(handlers.begin(), handlers.end(),
                                      [&](const auto& entry) { return entry.first == item; });
      return found == handlers.end() ? std::string() : found->second;
    };
    for (const auto& [name, tree] : plan_.items->trees) {
      std::string handler = handler_of(name);
      if (handler.empty()) handler = orbax::pytree_handler_name(from_->layout().v1);
      save.content.items.emplace_back(tree.name, std::move(handler));
      orbax::SavedTree& saved =
          save.trees.emplace_back(orbax::SavedTree{tree.name, make(tree.leaves, name), save_});
      for (const orbax::PytreeItem& stored : from_->opened_items()) {
        if (stored.item.name != name) continue;
        saved.item.tree.custom_metadata = stored.metadata.custom_metadata;
        if (!plan_.items->as_stored) continue;
        saved.options.use_ocdbt = stored.storage == orbax::ArrayStorage::kOcdbt;
        saved.options.use_zarr3 = stored.metadata.use_zarr3;
      }
    }
    save.copies = plan_.items->copies;
    for (const orbax::CopiedItem& copy : save.copies)
      save.content.items.emplace_back(copy.name, handler_of(copy.name));
    return save;
  }

  // Of the whole checkpoint.
  SaveOptions options() const {
    SaveOptions save = save_;
    if (plan_.items)
      save.v1 = from_->layout().v1;
    else
      save.item = options_.orbax.item;
    return save;
  }

 private:
  // Orbax refuses a list that lacks an item, which was not selected or was left out. As a dict it
  // keeps the names of the others.
  static void keep_restorable(std::vector<LeafMetadata>& leaves) {
    std::vector<KeyPath*> paths;
    paths.reserve(leaves.size());
    for (LeafMetadata& leaf : leaves) paths.push_back(&leaf.path);
    turn_faulty_nodes_into_dicts(paths);
  }

  // Orbax sorts dicts when it saves, but not the fields of named tuples. The order in an Orbax
  // checkpoint is what it made of both. Rules and other formats give no such order.
  [[nodiscard]] bool keeps_order() const {
    return from_ != nullptr && static_cast<const Checkpoint*>(from_) == &source_;
  }

  void add_leaf(std::size_t number, orbax::SaveItem& item,
                std::vector<std::size_t>& tensors) const {
    const std::size_t index = plan_.indices[number];
    const TensorInfo& tensor = source_.tensors()[index];
    LeafMetadata& leaf = item.tree.leaves.emplace_back(
        orbax::leaf_metadata(plan_.paths[number], kind_of(tensor, relayout_of(plan_, number))));
    if (tensor.is_string())
      item.strings.push_back({param_name(leaf.path), source_.read_string(index)});
    if (!tensor.is_array()) return;
    StoreArray& array = item.arrays.emplace_back(make_array(source_, plan_, number));
    tensors.push_back(index);
    orbax::link(leaf, array);
    cut_for(group_, plan_.report.bytes / group_.count(), options_, array);
  }

  const Checkpoint& source_;
  const ConvertPlan& plan_;
  const ConvertOptions& options_;
  distributed::ProcessGroup group_;
  const orbax::OrbaxCheckpoint* from_;  // may be null
  SaveOptions save_;
};

}  // namespace

void add_orbax_options(const OrbaxTarget& options, distributed::ConsistencyCheck& check) {
  const Compression& compression = options.compression;
  check.add("compression", std::to_string(static_cast<int>(compression.method)) + " at level " +
                               option_text(compression.level));
  check.add("chunk_bytes", option_text(options.chunk_bytes));
  check.add("target_file_bytes", option_text(options.target_file_bytes));
  check.add("item", option_text(options.item));
  check.add("follow_links", option_text(options.follow_links));
  check.add("unsynced", option_text(options.durability == Durability::kUnsynced));
  check.add("commit_file", option_text(options.commit_protocol == CommitProtocol::kCommitMarker));
}

CompressionReport write_orbax(const Checkpoint& source, const ConvertPlan& plan,
                              const std::string& target, const ConvertOptions& options) {
  const TreeMaker maker(source, plan, options);
  orbax::ItemsSave save;
  distributed::ProcessGroup(options.multiprocessing)
      .step("convert: leaves", distributed::StepKind::kControl,
            [&] { save = plan.items ? maker.make_items() : maker.make_one(); });
  return orbax::save_items(target, std::move(save), maker.options(), options.multiprocessing);
}

}  // namespace cairn::inline v0
