// array_handler.cc -- arrays whose parts lie on devices: written in the pieces that the devices hold, restored to any sharding.
#include <cairn/base/box.h>
#include <cairn/handlers.h>
#include <cairn/handlers/array_parts.h>
#include <cairn/handlers/box_table.h>
#include <cairn/handlers/read_leaves.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn {
namespace {

using handlers::LeafRead;

std::uint64_t bytes_of(std::span<const std::int64_t> shape, DType dtype) {
  return static_cast<std::uint64_t>(element_count(shape)) * dtype_size(dtype);
}

// Host memory that holds the whole array in C order, if a shard of it is just that.
const HostMemory* whole_in_memory(const ShardedArray& array) {
  const Box whole = Box::whole(array.shape);
  for (const ArrayShard& shard : array.shards) {
    const auto* memory = std::get_if<HostMemory>(&shard.source);
    if (memory != nullptr && shard.box == whole && memory->view.contiguous()) return memory;
  }
  return nullptr;
}

TransferPriority priority_of(const ArrayHandler::Options& options, const ParamInfo& info) {
  if (options.key_priority) return options.key_priority(info.keypath);
  if (!info.is_prioritized_key_fn || info.is_prioritized_key_fn(info.keypath)) return TransferPriority::kSynchronous;
  return TransferPriority::kAsynchronousDeprioritized;
}

// Says where the elements come from: at once from a copy, from where they are, or from the devices when they are wanted.
void set_source(StoreArray& store, const ShardedArray& array, TransferPriority priority, bool background) {
  store.priority = static_cast<int>(priority);
  if (background && priority == TransferPriority::kSynchronous) {
    const auto copy = std::make_shared<const Array>(gather(array));
    store.data = copy->bytes().data();
    store.owner = copy;
    return;
  }
  const auto kept = std::make_shared<const ShardedArray>(array);
  if (const HostMemory* memory = whole_in_memory(*kept)) {
    store.data = memory->view.data;
    store.owner = kept;
    return;
  }
  store.copy = [kept](const Box& part, const MutableArrayView& out) { copy_box(*kept, part, out); };
}

// ---- restoring ----

// The arguments of an array, whatever kind of arguments were given.
ArrayRestoreArgs array_args(const AnyRestoreArgs& args) {
  if (const auto* array = std::get_if<ArrayRestoreArgs>(&args)) return *array;
  ArrayRestoreArgs made;
  made.dtype = std::get<RestoreArgs>(args).dtype;
  return made;
}

Sharding stored_sharding(const ItemReader& reader, const ParamInfo& info) {
  const auto text = reader.sharding(info.name);
  if (!text)
    throw Error(Code::kInvalidArgument, "the sharding of a jax.Array cannot be None: none is stored; give mesh and mesh_axes, or sharding");
  if (text->empty())
    throw Error(Code::kInvalidArgument, "no sharding of this array is in the file of shardings; give mesh and mesh_axes, or sharding");
  Sharding sharding = parse_sharding(*text);
  const auto* unknown = std::get_if<UnknownSharding>(&sharding);
  if (unknown == nullptr) return sharding;
  if (unknown->json.find("PositionalSharding") != std::string::npos)
    throw Error(Code::kInvalidArgument,
                "the stored sharding cannot be used; the sharding of a jax.Array should be specified, and concrete");
  throw Error(Code::kUnimplemented, "a sharding of a type that is not known: " + unknown->json);
}

Sharding sharding_for(const ItemReader& reader, const ParamInfo& info, const ArrayRestoreArgs& args) {
  if (args.mesh && args.mesh_axes) return named_sharding(*args.mesh, *args.mesh_axes);
  if (args.sharding) return *args.sharding;
  return stored_sharding(reader, info);
}

Shape shape_for(const TensorInfo& stored, const ArrayRestoreArgs& args) {
  if (args.global_shape && args.shape && *args.global_shape != *args.shape)
    throw Error(Code::kInvalidArgument,
                "global_shape " + shape_text(*args.global_shape) + " and shape " + shape_text(*args.shape) + " must match");
  const Shape shape = args.global_shape ? *args.global_shape : args.shape ? *args.shape : stored.shape;
  if (shape == stored.shape) return shape;
  if (args.strict)
    throw Error(Code::kInvalidArgument, "is stored with shape " + shape_text(stored.shape) + ", but shape " + shape_text(shape) +
                                            " was asked for; strict = false cuts it off or fills it up with zeros");
  if (shape.size() != stored.shape.size())
    throw Error(Code::kInvalidArgument, "ranks do not match: it is stored with shape " + shape_text(stored.shape) + ", shape " +
                                            shape_text(shape) + " was asked for");
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; }))
    throw Error(Code::kInvalidArgument, "shape " + shape_text(shape) + " was asked for");
  return shape;
}

// What reading a box takes at least: all of the chunks it touches.
std::int64_t reserved_bytes(const TensorInfo& stored, const Box& box) {
  Shape widened = box.shape;
  for (std::size_t d = 0; d < widened.size() && d < stored.chunk_shape.size(); ++d) {
    const std::int64_t chunk = std::max<std::int64_t>(1, stored.chunk_shape[d]);
    const std::int64_t first = box.origin[d] / chunk * chunk;
    const std::int64_t last = (box.origin[d] + box.shape[d] + chunk - 1) / chunk * chunk;
    widened[d] = std::min(last, std::max(stored.shape[d], first)) - first;
  }
  return element_count(widened) * static_cast<std::int64_t>(std::max<std::size_t>(1, stored.element_size));
}

// One array to be restored: boxes that devices want, each read once however many want it.
class Restoring {
 public:
  Restoring(const ParamInfo& info, const TensorInfo& stored, Shape shape, Sharding sharding, DType dtype) {
    result_.shape = std::move(shape);
    result_.sharding = std::move(sharding);
    result_.dtype = dtype;
    for (DeviceBox& device : device_boxes(handlers::for_rank(result_.sharding, result_.shape.size()), result_.shape)) {
      const std::size_t i = memory_for(device.box, info, stored);
      result_.shards.push_back({device.device_id, std::move(device.box), device.replica, HostMemory{parts_[i].view(), parts_[i].owner}});
    }
  }

  // Appends what is to be read for it.
  void plan(const ParamInfo& info, const TensorInfo& stored, std::vector<LeafRead>& reads) const {
    for (const Part& part : parts_) {
      const auto inside = intersect(part.box, Box::whole(stored.shape));
      if (inside) reads.push_back({info.name, stored.dtype, *inside, subview(part.out, relative_to(*inside, part.box.origin))});
    }
  }
  ShardedArray take() { return std::move(result_); }

 private:
  struct Part {
    Box box;
    MutableArrayView out;
    std::shared_ptr<const void> owner;
    [[nodiscard]] ArrayView view() const { return as_const(out); }
  };

  std::size_t memory_for(const Box& box, const ParamInfo& info, const TensorInfo& stored) {
    const auto [number, is_new] = numbers_.add(box);
    if (!is_new) return number;
    const auto inside = box.empty() ? std::optional<Box>() : intersect(box, Box::whole(stored.shape));
    if (inside && info.byte_limiter) info.byte_limiter->check(reserved_bytes(stored, *inside));
    const auto buffer = std::make_shared<Buffer>(static_cast<std::size_t>(bytes_of(box.shape, result_.dtype)));
    if (buffer->size() > 0 && (!inside || !(*inside == box))) std::memset(buffer->data(), 0, buffer->size());
    parts_.push_back({box, make_view(MutableByteView(buffer->data(), buffer->size()), result_.dtype, box.shape), buffer});
    return number;
  }

  ShardedArray result_;
  handlers::BoxTable<> numbers_;  // into parts_
  std::vector<Part> parts_;
};

}  // namespace

ArrayHandler::ArrayHandler() : ArrayHandler(Options{}) {}

ArrayHandler::ArrayHandler(Options options) : options_(std::move(options)) {
  if (!options_.replica_id && options_.use_replica_parallel)
    throw Error(Code::kInvalidArgument,
                "replica_id of none means that each process writes its own replica, so replicas cannot share out pieces: set "
                "use_replica_parallel to false");
}

std::vector<ValueMetadata> ArrayHandler::metadata(std::span<const ParamInfo> infos) const {
  auto out = handlers::array_value_metadata(infos, typestr(), options_.metadata_key);
  const ItemReader& reader = handlers::reader_of(infos);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    out[i].storage->write_shape = infos[i].write_shape;
    const auto text = reader.sharding(infos[i].name);
    if (text && !text->empty()) out[i].sharding = in([&] { return infos[i].name; }, [&] { return parse_sharding(*text); });
  }
  return out;
}

TypeHandler::Futures ArrayHandler::serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                                             std::span<const SaveArgs> args) const {
  check_input_arguments({values.size(), infos.size(), args.size()});
  ItemWriter& writer = handlers::writer_of(infos);
  const SavingProcess process = writer.process();
  const PieceOptions pieces{options_.replica_id, options_.use_replica_parallel, options_.min_slice_bytes_for_replica_parallel,
                            options_.max_replicas_for_replica_parallel};
  for (std::size_t i = 0; i < values.size(); ++i) {
    in([&] { return infos[i].name; },
       [&] {
         const auto* array = values[i].custom<ShardedArray>();
         if (array == nullptr) throw Error(Code::kInvalidArgument, "is no sharded array");
         if (element_count(array->shape) == 0)
           throw Error(Code::kInvalidArgument, "has shape " + shape_text(array->shape) + ": arrays of size zero cannot be saved");
         StoreArray store;
         store.name = infos[i].name;
         store.source_dtype = array->dtype;
         store.dtype = args[i].dtype.value_or(array->dtype);
         store.shape = array->shape;
         WritePlan plan = plan_pieces(*array, pieces);
         store.write_shape = std::move(plan.write_shape);
         store.chunk_byte_size = args[i].chunk_byte_size;
         store.shard_axes = args[i].shard_axes;
         store.write_chunk_shape = args[i].write_chunk_shape;
         store.read_chunk_shape = args[i].read_chunk_shape;
         store.metadata_key = options_.metadata_key;
         store.device_array = true;
         store.random_key_impl = array->random_key_impl;
         if (options_.enable_write_sharding_file && process.is_primary) store.sharding = sharding_json(array->sharding).value_or("");
         if (infos[i].byte_limiter) infos[i].byte_limiter->check(static_cast<std::int64_t>(bytes_of(store.write_shape, array->dtype)));
         const TransferPriority priority = priority_of(options_, infos[i]);
         if (process.count == 1) {
           set_source(store, *array, priority, writer.is_background());
         } else {
           handlers::check_not_host_local(*array, process.count);
           store.priority = static_cast<int>(priority);
           store.in_replica_folder = options_.enable_replica_parallel_separate_folder && options_.use_replica_parallel &&
                                     handlers::looks_replicated(array->sharding);
           handlers::set_parts(store, *array, plan.pieces, writer.is_background() && priority == TransferPriority::kSynchronous);
         }
         writer.add_array(std::move(store));
       });
  }
  return {writer.written()};
}

std::vector<Tree> ArrayHandler::deserialize(std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args) const {
  check_input_arguments({infos.size(), args.size()});
  const ItemReader& reader = handlers::reader_of(infos);
  const std::vector<TensorInfo> stored = handlers::stored_arrays(reader, infos, options_.metadata_key);
  std::vector<Restoring> arrays;
  std::vector<LeafRead> reads;
  std::vector<std::string> keys;  // implementations of PRNG keys; "" for ordinary arrays
  for (std::size_t i = 0; i < infos.size(); ++i) {
    in([&] { return infos[i].name; },
       [&] {
         const ArrayRestoreArgs wanted = array_args(args[i]);
         Sharding sharding = sharding_for(reader, infos[i], wanted);
         keys.push_back(reader.random_key_impl(infos[i].name));
         // The data of a key is what it is.
         const DType dtype = keys.back().empty() ? wanted.dtype.value_or(stored[i].dtype) : stored[i].dtype;
         arrays.emplace_back(infos[i], stored[i], shape_for(stored[i], wanted), std::move(sharding), dtype);
         arrays.back().plan(infos[i], stored[i], reads);
       });
  }
  handlers::read_leaves(reader, reads, handlers::conversion_bytes(infos));
  std::vector<Tree> out;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    ShardedArray array = arrays[i].take();
    array.random_key_impl = std::move(keys[i]);
    out.emplace_back(CustomLeaf::of(std::move(array)));
  }
  return out;
}

}  // namespace cairn
