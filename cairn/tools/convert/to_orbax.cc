// to_orbax.cc -- converts a plan to leaves to save; the writer reads their elements when it needs
// them.
#include <cairn/tools/convert/to_orbax.h>

#include <cairn/base/work_partition.h>
#include <cairn/distributed/process_group.h>
#include <cairn/orbax/save/save.h>
#include <cairn/tools/source/consistency.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>
#include <cstdint>

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
  const auto bytes = [&] {
    return static_cast<std::uint64_t>(element_count(piece)) * dtype_size(array.dtype);
  };
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
  save.use_ocdbt = plan.report.format != "orbax-files";
  save.use_zarr3 = plan.report.format == "orbax-zarr3";
  save.item = options.orbax.item;
  save.compression = options.orbax.compression;
  save.chunk_bytes = options.orbax.chunk_bytes;
  if (options.orbax.target_file_bytes) save.target_file_bytes = *options.orbax.target_file_bytes;
  save.if_exists = options.if_exists;
  save.resources = options.resources;
  save.progress = options.progress;
  return save;
}

}  // namespace

void add_orbax_options(const OrbaxTarget& options, distributed::ConsistencyCheck& check) {
  const Compression& compression = options.compression;
  check.add("compression", std::to_string(static_cast<int>(compression.method)) + " at level " +
                               option_text(compression.level));
  check.add("chunk_bytes", option_text(options.chunk_bytes));
  check.add("target_file_bytes", option_text(options.target_file_bytes));
  check.add("item", option_text(options.item));
}

void write_orbax(const Checkpoint& source, const ConvertPlan& plan, const std::string& target,
                 const ConvertOptions& options) {
  std::vector<std::size_t> order(plan.indices.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return key_path_less(plan.paths[a], plan.paths[b]);
  });
  orbax::SaveItem item;
  item.dealt = true;
  item.tree.leaves.reserve(order.size());
  std::vector<std::size_t> tensors;  // parallel to the item's arrays
  const distributed::ProcessGroup group(options.multiprocessing);
  group.step("convert: leaves", distributed::StepKind::kControl, [&] {
    for (const std::size_t number : order) {
      const std::size_t index = plan.indices[number];
      const TensorInfo& tensor = source.tensors()[index];
      LeafMetadata& leaf = item.tree.leaves.emplace_back(
          orbax::leaf_metadata(plan.paths[number], kind_of(tensor, relayout_of(plan, number))));
      if (tensor.is_string())
        item.strings.push_back({param_name(leaf.path), source.read_string(index)});
      if (!tensor.is_array()) continue;
      StoreArray& array = item.arrays.emplace_back(make_array(source, plan, number));
      tensors.push_back(index);
      orbax::link(leaf, array);
      cut_for(group, plan.report.bytes / group.count(), options, array);
    }
  });
  item.tree.custom_metadata = source.info().custom_metadata;
  item.fetch = [&](std::span<ReadRequest> requests) {
    for (ReadRequest& request : requests) request.tensor = tensors[request.tensor];
    source.read(requests, {});
  };
  orbax::save_item(target, std::move(item), save_options(plan, options), options.multiprocessing);
}

}  // namespace cairn::inline v0
