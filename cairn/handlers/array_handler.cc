// array_handler.cc -- saves arrays whose parts lie on devices, in the pieces that the devices hold,
// and restores them to any sharding.
#include <cairn/array/box.h>
#include <cairn/array/byte_count.h>
#include <cairn/base/observer/observe.h>
#include <cairn/handlers/array_parts.h>
#include <cairn/handlers/array_restore.h>
#include <cairn/handlers/read_leaves.h>
#include <cairn/orbax/byte_limiter.h>
#include <cairn/orbax/handlers.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

using handlers::LeafRead;
using handlers::RestoringArray;

// Host memory that holds the whole array in C order, if one of the shards has it.
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
  if (!info.is_prioritized_key_fn || info.is_prioritized_key_fn(info.keypath))
    return TransferPriority::kSynchronous;
  return TransferPriority::kAsynchronousDeprioritized;
}

// What a save of device arrays is to warn of.
struct Warnings {
  bool all_later = true;        // all arrays are copied after the save has returned
  bool ignores_folder = false;  // a separate folder for replicas is possible only in a database
  std::vector<std::string_view> without_sharding;  // arrays with a sharding that has no JSON

  void report(const Observer& observer) const {
    if (all_later) observe(observer, EventLevel::kWarning, "save.no_prioritized_arrays", {});
    if (ignores_folder) observe(observer, EventLevel::kWarning, "save.replica_folder_ignored", {});
    if (!without_sharding.empty())
      observe(observer, EventLevel::kWarning, "save.sharding_not_stored",
              {{"leaf", without_sharding.front()},
               {"leaves", static_cast<std::int64_t>(without_sharding.size())}});
  }
};

// The sizes of whole arrays: of those that several devices hold alike, and of the others.
struct DeviceArrays {
  std::int64_t count = 0;
  std::uint64_t sharded = 0, replicated = 0;

  void add(const ShardedArray& array, const WritePlan& plan) {
    ++count;
    (plan.replicas > 1 ? replicated : sharded) += byte_count(array.shape, array.dtype);
  }
  void report(const ParamInfo& info) const {
    observe(info.observer, EventLevel::kInfo, "save.device_arrays",
            {{"path", info.parent_dir},
             {"arrays", count},
             {"sharded_bytes", static_cast<std::int64_t>(sharded)},
             {"replicated_bytes", static_cast<std::int64_t>(replicated)}});
  }
};

// Describes an array that is stored in pieces of `write_shape`, without its elements.
StoreArray describe(const ShardedArray& array, const ParamInfo& info, const SaveArgs& args,
                    Shape write_shape) {
  StoreArray store = handlers::store_array(info, args, array.dtype, array.shape);
  // In an array without elements a piece may have extents of 0, but a chunk may not.
  for (std::int64_t& extent : write_shape) extent = std::max<std::int64_t>(1, extent);
  store.write_shape = std::move(write_shape);
  store.device_array = true;
  store.random_key_impl = array.random_key_impl;
  if (info.byte_limiter)
    info.byte_limiter->check(static_cast<std::int64_t>(byte_count(store.write_shape, array.dtype)));
  return store;
}

// Sets the source of the elements: a copy made now, their place in memory, or the devices, from
// which they are fetched when needed.
void set_source(StoreArray& store, const ShardedArray& array, bool copy_now) {
  if (copy_now) {
    const auto copy = std::make_shared<const Array>(gather_shards(array));
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

// Tells the caller's functions when the elements are in host memory, and when they are written.
void set_callbacks(StoreArray& store, const ArrayHandler::Options& options, const KeyPath& path,
                   bool is_copied) {
  const auto call = [&path](const std::function<void(const KeyPath&)>& function) {
    return function ? std::function<void()>([function, path] { function(path); }) : nullptr;
  };
  if (!is_copied)
    store.on_copied = call(options.on_transfer_end);
  else if (options.on_transfer_end)
    options.on_transfer_end(path);
  store.on_written = call(options.on_write_end);
}

// ---- restoring ----

// The arguments as those of an array, whichever kind was given.
ArrayRestoreArgs array_args(const AnyRestoreArgs& args) {
  if (const ArrayRestoreArgs* array = array_restore_args(args)) return *array;
  ArrayRestoreArgs made;
  made.dtype = std::get<RestoreArgs>(args).dtype;
  return made;
}

Sharding stored_sharding(const ItemReader& reader, const ParamInfo& info) {
  const auto text = reader.sharding(info.name);
  if (!text)
    throw Error(Code::kInvalidArgument,
                "the sharding of a jax.Array cannot be None: none is stored; give mesh and "
                "mesh_axes, or sharding");
  if (text->empty())
    throw Error(Code::kInvalidArgument,
                "the sharding file has no sharding of this array; give mesh and mesh_axes, "
                "or sharding");
  Sharding sharding = parse_sharding(*text);
  const auto* unknown = std::get_if<UnknownSharding>(&sharding);
  if (unknown == nullptr) return sharding;
  if (unknown->json.find("PositionalSharding") != std::string::npos)
    throw Error(Code::kInvalidArgument,
                "the stored sharding cannot be used; give a concrete sharding of the jax.Array");
  throw Error(Code::kUnimplemented, "unknown type of sharding: " + unknown->json);
}

bool gives_sharding(const ArrayRestoreArgs& args) {
  return args.sharding || (args.mesh && args.mesh_axes);
}

// Reports shardings that the arguments do not give, which the sharding file must then give.
void report_stored_shardings(std::span<const ParamInfo> infos,
                             std::span<const AnyRestoreArgs> args) {
  std::int64_t count = 0;
  std::string_view first;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const ArrayRestoreArgs* array = array_restore_args(args[i]);
    if (array != nullptr && gives_sharding(*array)) continue;
    if (count++ == 0) first = infos[i].name;
  }
  if (count > 0)
    observe(infos[0].observer, EventLevel::kWarning, "restore.stored_sharding",
            {{"leaf", first}, {"leaves", count}});
}

Sharding sharding_for(const ItemReader& reader, const ParamInfo& info,
                      const ArrayRestoreArgs& args) {
  if (args.mesh && args.mesh_axes) return named_sharding(*args.mesh, *args.mesh_axes);
  if (args.sharding) return *args.sharding;
  return stored_sharding(reader, info);
}

}  // namespace

ArrayHandler::ArrayHandler() : ArrayHandler(Options{}) {}

ArrayHandler::ArrayHandler(Options options) : options_(std::move(options)) {
  if (!options_.replica_id && options_.use_replica_parallel)
    throw Error(Code::kInvalidArgument,
                "without a replica_id each process writes its own replica, so replicas cannot "
                "share pieces; set use_replica_parallel to false");
}

std::vector<ValueMetadata> ArrayHandler::metadata(std::span<const ParamInfo> infos) const {
  auto out = handlers::array_value_metadata(infos, typestr(), options_.metadata_key);
  const ItemReader& reader = handlers::reader_of(infos);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    out[i].storage->write_shape = infos[i].write_shape;
    const auto text = reader.sharding(infos[i].name);
    if (text && !text->empty())
      out[i].sharding =
          with_context([&] { return infos[i].name; }, [&] { return parse_sharding(*text); });
  }
  return out;
}

TypeHandler::Futures ArrayHandler::serialize(std::span<const Tree> values,
                                             std::span<const ParamInfo> infos,
                                             std::span<const SaveArgs> args) const {
  check_input_arguments({values.size(), infos.size(), args.size()});
  ItemWriter& writer = handlers::writer_of(infos);
  const SavingProcess process = writer.process();
  const PieceOptions pieces{options_.replica_id, options_.use_replica_parallel,
                            options_.min_slice_bytes_for_replica_parallel,
                            options_.max_replicas_for_replica_parallel};
  Warnings warnings;
  DeviceArrays sizes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    with_context([&] { return infos[i].name; },
                 [&] {
                   const auto* array = values[i].custom<ShardedArray>();
                   if (array == nullptr)
                     throw Error(Code::kInvalidArgument, "is not a sharded array");
                   WritePlan plan = plan_pieces(*array, pieces);
                   sizes.add(*array, plan);
                   StoreArray store = describe(*array, infos[i], args[i], plan.write_shape);
                   store.metadata_key = options_.metadata_key;
                   store.is_unrecorded = !options_.keep_array_metadata;
                   if (options_.enable_write_sharding_file && process.is_primary) {
                     store.sharding = sharding_json(array->sharding).value_or("");
                     if (store.sharding.empty()) warnings.without_sharding.push_back(infos[i].name);
                   }
                   const TransferPriority priority = priority_of(options_, infos[i]);
                   store.priority = static_cast<int>(priority);
                   warnings.all_later &= priority != TransferPriority::kSynchronous;
                   const bool copy_now =
                       writer.is_background() && priority == TransferPriority::kSynchronous;
                   if (process.count == 1) {
                     set_source(store, *array, copy_now);
                   } else {
                     handlers::check_not_host_local(*array, process.count);
                     store.in_replica_folder = options_.enable_replica_parallel_separate_folder &&
                                               options_.use_replica_parallel &&
                                               handlers::looks_replicated(array->sharding);
                     handlers::set_parts(store, *array, plan.pieces, copy_now);
                   }
                   set_callbacks(store, options_, infos[i].keypath, copy_now);
                   writer.add_array(std::move(store));
                 });
  }
  warnings.all_later &= writer.is_background();
  warnings.ignores_folder =
      options_.enable_replica_parallel_separate_folder && !*infos[0].is_ocdbt_checkpoint;
  warnings.report(infos[0].observer);
  if (process.is_primary) sizes.report(infos[0]);
  return {writer.written()};
}

std::vector<Tree> ArrayHandler::deserialize(std::span<const ParamInfo> infos,
                                            std::span<const AnyRestoreArgs> args) const {
  check_input_arguments({infos.size(), args.size()});
  const ItemReader& reader = handlers::reader_of(infos);
  report_stored_shardings(infos, args);
  const std::vector<TensorInfo> stored =
      handlers::stored_arrays(reader, infos, options_.metadata_key);
  const handlers::LocalDevices local = handlers::local_devices(reader.processes());
  std::vector<RestoringArray> arrays;
  std::vector<LeafRead> reads;
  std::vector<std::string> keys;  // PRNG implementations of key arrays; "" for ordinary arrays
  for (std::size_t i = 0; i < infos.size(); ++i) {
    with_context([&] { return infos[i].name; },
                 [&] {
                   const ArrayRestoreArgs wanted = array_args(args[i]);
                   Sharding sharding = sharding_for(reader, infos[i], wanted);
                   keys.push_back(options_.keep_array_metadata
                                      ? reader.random_key_impl(infos[i].name)
                                      : std::string());
                   // The data of a PRNG key is never cast.
                   const DType dtype = keys.back().empty() ? wanted.dtype.value_or(stored[i].dtype)
                                                           : stored[i].dtype;
                   RestoringArray& array = arrays.emplace_back(
                       handlers::shape_for(stored[i], wanted), std::move(sharding), dtype, local);
                   for (std::size_t box = 0; box < array.boxes().size(); ++box)
                     if (array.is_here(box)) array.read(box, infos[i], stored[i], reads);
                 });
  }
  handlers::report_shard_shapes(infos, stored, arrays);
  handlers::read_leaves(reader, infos, reads);
  std::vector<Tree> out;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    ShardedArray array = arrays[i].take();
    array.random_key_impl = std::move(keys[i]);
    out.emplace_back(CustomLeaf::of(std::move(array)));
  }
  return out;
}

}  // namespace cairn::inline v0
