// handlers.h -- how the leaves of a pytree are stored: a handler for each type of leaf, and the
// registry of handlers. Names, rules and results are those of Orbax's type handlers.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/observer.h>
#include <cairn/orbax/array_spec.h>
#include <cairn/orbax/byte_limiter.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// The C++ type of a leaf's value, which selects its handler: typeid(bool), typeid(Array), or the
// type of the value in a CustomLeaf. Throws invalid_argument for containers and empty nodes, which
// have no handlers.
std::type_index leaf_type(const Tree& leaf);

// ---- where handlers put values, and get them from ----

// The calling process among those that save an item together.
struct SavingProcess {
  std::size_t index = 0;   // index of the process
  std::size_t count = 1;   // number of processes
  bool is_primary = true;  // writes everything that is not split: host values, strings, metadata
  bool writes_separately = false;  // each process saves into a folder of its own
};

// A part of an array that one process stores.
struct StorePart {
  Box box;         // in the array's coordinates
  ArrayView from;  // its elements, any strides; null: copied when they are needed
};

// An array to be stored under a parameter name.
struct StoreArray {
  std::string name;                    // parameter name
  DType dtype = DType::kUint8;         // stored type
  DType source_dtype = DType::kUint8;  // type of the given elements
  Shape shape;                         // of the whole array
  Shape write_shape = {};  // shape of the pieces in which it is stored; empty: one piece
  std::optional<std::int64_t> chunk_byte_size = {};  // target chunk size in bytes
  std::vector<std::int64_t> shard_axes = {};         // dimensions that are split first
  std::optional<Shape> write_chunk_shape = {}, read_chunk_shape = {};  // as in SaveArgs
  // File name of its metadata, below its name. "": .zarray or zarr.json.
  std::string metadata_key = {};
  // The elements in C order, and their owner. If `data` is null, `copy` copies parts of them out
  // when they are needed; it is called from one thread at a time.
  std::shared_ptr<const void> owner = {};
  const std::byte* data = nullptr;
  std::function<void(const Box& part, const MutableArrayView& out)> copy = {};
  // A jax.Array: array_metadatas and _METADATA record its pieces.
  bool device_array = false;
  // Arrays with a lower number are written before the first array with a higher number is copied.
  int priority = 0;
  std::string sharding = {};         // JSON text for _sharding; "" for none
  std::string random_key_impl = {};  // for a typed PRNG key; else ""
  // For an array that several processes store together: the parts that this process stores, each a
  // part of one piece of write_shape. None: all of the array. `owner` owns the memory of the parts.
  std::optional<std::vector<StorePart>> parts = {};
  // Store the values in a database separate from that of other arrays, where each process has its
  // own.
  bool in_replica_folder = false;
  // A device array of which array_metadatas and _METADATA record nothing about its pieces.
  bool is_unrecorded = false;
  // Called when all elements that this process stores are in host memory, and when they are
  // written. Null: nobody is told. Must not throw.
  std::function<void()> on_copied = {}, on_written = {};
};

// Collects what the handlers want stored. All of it is written together, after every handler was
// called.
class ItemWriter {
 public:
  ItemWriter() = default;
  ItemWriter(const ItemWriter&) = delete;
  ItemWriter& operator=(const ItemWriter&) = delete;
  virtual ~ItemWriter() = default;

  // These add a value to be stored under a parameter name.
  virtual void add_array(StoreArray array) = 0;
  void add_string(std::string name, std::string text) {
    add_string_in("", std::move(name), std::move(text));
  }
  // The same for a string in a JSON file of its own name (StringHandler::Options::filename).
  virtual void add_string_in(std::string file, std::string name, std::string text) = 0;
  // Whether the caller continues before everything is written. If so, a handler must first copy
  // values that the caller may change.
  [[nodiscard]] virtual bool is_background() const = 0;
  // Calls task(0) ... task(n-1) with the threads of the save, and returns when all have ended. The
  // first exception is thrown here. By default they run in the calling thread.
  virtual void run_tasks(std::size_t n, const std::function<void(std::size_t)>& task) const {
    for (std::size_t i = 0; i < n; ++i) task(i);
  }
  // Becomes ready when everything that was added is written; carries the error if a write fails.
  [[nodiscard]] virtual std::shared_future<void> written() const = 0;
  // The calling process. Host values that a process other than the primary adds are not stored.
  [[nodiscard]] virtual SavingProcess process() const { return {}; }
};

// Reads the stored values of an item. Safe to call from many threads.
class ItemReader {
 public:
  // A box of a stored array, and the memory to read it into, which has the array's dtype.
  struct Read {
    std::string_view name;
    Box box;
    MutableArrayView out;
  };

  ItemReader() = default;
  ItemReader(const ItemReader&) = delete;
  ItemReader& operator=(const ItemReader&) = delete;
  virtual ~ItemReader() = default;

  // Description of each array: dtype, shape and chunks. Throws not_found for an unknown array,
  // data_loss if its metadata is damaged.
  [[nodiscard]] std::vector<TensorInfo> arrays(std::span<const std::string_view> names) const {
    return arrays_under(names, "");
  }
  // The same for arrays whose metadata has its own file name (StoreArray::metadata_key).
  [[nodiscard]] virtual std::vector<TensorInfo> arrays_under(
      std::span<const std::string_view> names, const std::string& metadata_key) const = 0;
  // How the array was distributed over devices, as JSON. "": not recorded for this array. nullopt:
  // not recorded for any array.
  [[nodiscard]] virtual std::optional<std::string> sharding(const std::string& name) const = 0;
  // Implementation of the typed PRNG key whose data the array holds; "" for other arrays.
  [[nodiscard]] virtual std::string random_key_impl(const std::string& name) const = 0;
  // The content of the metadata file of a described array. nullopt: unknown.
  [[nodiscard]] virtual std::optional<ZarrMetadata> zarr_metadata(
      const std::string& /*name*/) const {
    return std::nullopt;
  }
  // Reads all boxes as one plan, in parallel. Errors name the array.
  virtual void read(std::span<const Read> reads) const = 0;
  // The stored string. Throws not_found.
  [[nodiscard]] std::string string(const std::string& name) const { return string_in("", name); }
  // The same for a string in a JSON file of its own name (StringHandler::Options::filename).
  [[nodiscard]] virtual std::string string_in(const std::string& file,
                                              const std::string& name) const = 0;
  // The processes that restore together, and this process's devices.
  [[nodiscard]] virtual MultiprocessingOptions processes() const { return {}; }
  // The threads that convert elements: by default all cores.
  [[nodiscard]] virtual Executor& executor() const;
};

// ---- handlers ----

// Whether the leaf with this path is copied before a background save returns.
using IsPrioritizedKeyFn = std::function<bool(const KeyPath&)>;

// Information about a leaf beside its value. PyTreeCheckpointHandler fills it in.
struct ParamInfo {
  std::string name;             // the keys joined with '.'
  KeyPath keypath = {};         // path in the tree
  std::string parent_dir = {};  // the item's folder
  // In a StoredStructure, which legacy_transform_fn returns: do not read the leaf, but restore it
  // as a Placeholder. A handler is not called for such leaves.
  bool skip_deserialize = false;
  std::optional<bool> is_ocdbt_checkpoint = {};  // whether a database stores the leaf
  bool use_compression = true;
  bool use_zarr3 = false;                                        // Zarr v3; false: Zarr v2
  std::optional<std::int64_t> ocdbt_target_data_file_size = {};  // bytes; 0: no limit
  std::string value_typestr = {};                                // typestr of the leaf's handler
  bool raise_array_data_missing_error = true;  // false: missing chunks read as the fill value
  std::optional<Shape> write_shape = {};       // shape of the stored pieces, if recorded
  // Limits the bytes in flight of the save or restore. A handler that writes or reads files of its
  // own reserves what it holds, so that all together keep the limit. Null: no limit.
  std::shared_ptr<ByteLimiter> byte_limiter = {};
  IsPrioritizedKeyFn is_prioritized_key_fn = {};  // null: all are
  Observer observer = {};                         // of the save or restore; null: none
  std::shared_ptr<ItemWriter> writer = {};        // while saving
  std::shared_ptr<const ItemReader> reader = {};  // while restoring

  // parent_dir/name: the leaf's folder, if it has one. Throws invalid_argument if either is empty.
  [[nodiscard]] std::string path() const;
};

// Information about a stored leaf, available without its value. A metadata tree has custom leaves
// of this type.
struct ValueMetadata {
  std::string typestr = {};                     // typestr of the handler
  std::string name = {};                        // parameter name
  std::string directory = {};                   // the item's folder
  std::optional<Shape> shape = {};              // arrays and scalars
  std::optional<DType> dtype = {};              // as stored
  std::optional<Sharding> sharding = {};        // jax.Array, if a sharding is stored
  std::optional<StorageMetadata> storage = {};  // chunk and write shape, if known
};

// Stores and restores leaves of one type. Calls are batched: one call gets all leaves of an item
// that have this handler.
class TypeHandler {
 public:
  // become ready when the values are written
  using Futures = std::vector<std::shared_future<void>>;

  TypeHandler() = default;
  TypeHandler(const TypeHandler&) = delete;
  TypeHandler& operator=(const TypeHandler&) = delete;
  virtual ~TypeHandler() = default;

  // Name of these leaves in `_METADATA`. Unique in a registry.
  [[nodiscard]] virtual std::string typestr() const = 0;
  // Information about the stored leaves, without values.
  [[nodiscard]] virtual std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const = 0;
  // Copies everything that the caller may change before the futures are ready. Then passes the
  // values to infos[i].writer, or writes its own files below infos[i].parent_dir. The spans are
  // parallel and not empty (check_input_arguments).
  virtual Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                            std::span<const SaveArgs> args) const = 0;
  // Restores the leaves, in the order of `infos`.
  [[nodiscard]] virtual std::vector<Tree> deserialize(
      std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args) const = 0;
  // Whether deserialize is a collective call. If so, all processes must call restore in the same
  // way, and an error before deserialize in one process fails all of them.
  [[nodiscard]] virtual bool restores_together() const { return false; }
  // Called after all values of an item are written and before it is committed.
  virtual void finalize(const std::string& /*directory*/) const {}
};
using TypeHandlerPtr = std::shared_ptr<const TypeHandler>;

// Throws invalid_argument for a length of 0 and for lengths that differ.
void check_input_arguments(std::initializer_list<std::size_t> lengths);

// np.ndarray: an Array, stored whole.
class NumpyHandler : public TypeHandler {
 public:
  // Options of NumpyHandler.
  struct Options {
    // File name of the arrays' metadata, below their names. "": .zarray or zarr.json. Nothing
    // records the name, so a restore must be told it. For Zarr v2 only; in a database only without
    // enable_post_merge_validation, which looks for .zarray.
    std::string metadata_key = {};
    // Copy arrays before a background save returns. False: the caller must not change them until
    // the save has finished.
    bool deepcopy_host_arrays = true;
  };
  NumpyHandler();
  explicit NumpyHandler(Options options);
  [[nodiscard]] std::string typestr() const override { return "np.ndarray"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override;
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override;
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;

 private:
  Options options_;
};

// scalar: Python and NumPy numbers, stored as arrays of rank 0, restored as Python numbers.
class ScalarHandler : public TypeHandler {
 public:
  // Options of ScalarHandler.
  struct Options {
    std::string metadata_key = {};  // as in NumpyHandler::Options
  };
  ScalarHandler();
  explicit ScalarHandler(Options options);
  [[nodiscard]] std::string typestr() const override { return "scalar"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override;
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override;
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;

 private:
  Options options_;
};

// string: all strings of an item, stored in one file.
class StringHandler : public TypeHandler {
 public:
  // Options of StringHandler.
  struct Options {
    // Name of the JSON file in the item's folder. "": _strings.json. Nothing records another name,
    // so a restore must be told it. Throws invalid_argument for a name with '/', for "." and "..",
    // and for the names of other files of an item.
    std::string filename = {};
  };
  StringHandler();
  explicit StringHandler(Options options);
  [[nodiscard]] std::string typestr() const override { return "string"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override;
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override;
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;

 private:
  Options options_;
};

// placeholder: a leaf without data.
class PlaceholderHandler : public TypeHandler {
 public:
  [[nodiscard]] std::string typestr() const override { return "placeholder"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override;
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override;
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;
};

// When an array is copied from its device to the host.
enum class TransferPriority : std::uint8_t {
  kSynchronous,               // before save returns; not subject to the device-to-host limit
  kAsynchronousPrioritized,   // in the background, first
  kAsynchronousDeprioritized  // in the background, after all prioritized ones are written
};

// jax.Array: a ShardedArray, stored in the pieces that its devices hold. With several processes,
// each stores the pieces of its own devices. An array whose devices all belong to one process is
// then invalid_argument.
class ArrayHandler : public TypeHandler {
 public:
  // Options of ArrayHandler.
  struct Options {
    std::string metadata_key = {};  // as in NumpyHandler::Options
    // The replica that writes, where replicas do not share the work.
    std::optional<std::int64_t> replica_id = 0;
    bool use_replica_parallel = true;  // replicas share the pieces among them
    // Do not split a piece among replicas into parts smaller than this, in bytes.
    std::int64_t min_slice_bytes_for_replica_parallel = 0;
    // Maximum number of replicas that share a piece; none: no limit.
    std::optional<std::int64_t> max_replicas_for_replica_parallel = {};
    bool enable_write_sharding_file = true;  // record shardings in _sharding
    // With several processes: store replicated arrays in separate databases,
    // ocdbt.process_replica_<i>.
    bool enable_replica_parallel_separate_folder = false;
    // Null: determined by the checkpoint handler's is_prioritized_key_fn, else synchronous.
    std::function<TransferPriority(const KeyPath&)> key_priority = {};
    // Called for each array when this process has its elements in host memory, and when it has
    // written them. A background save calls them in its own thread, except for arrays of which it
    // copies the elements before it returns. Must not throw. Null: nobody is told.
    std::function<void(const KeyPath&)> on_transfer_end = {}, on_write_end = {};
    // Record the pieces of arrays in array_metadatas and `_METADATA`, and restore the types of PRNG
    // keys from there. False (Orbax's array_metadata_store=None): keys come back as their data.
    bool keep_array_metadata = true;
  };
  ArrayHandler();
  explicit ArrayHandler(Options options);
  [[nodiscard]] std::string typestr() const override { return "jax.Array"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override;
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override;
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;

 private:
  Options options_;
};

// jax.Array, restored by one replica that broadcasts to the others. The devices form replicas along
// one axis of the mesh. Only the processes of the primary replica read; they send what they read to
// the processes of the other replicas. Use it for jobs with many replicas, which would otherwise
// all read the same bytes from shared storage. It saves and describes arrays as ArrayHandler does,
// and is registered in its place:
//
//   registry.add(typeid(ShardedArray), std::make_shared<SingleReplicaArrayHandler>(options),
//   {.override_existing = true});
//
// All processes must restore the same arrays with the same SingleReplicaArrayRestoreArgs, each with
// its own `local_devices` (MultiprocessingOptions). Each process gets the shards of its own
// devices. docs/distributed.md describes the protocol and its cost.
//
// Throws invalid_argument
// - for arguments of another kind, or without a sharding;
// - for a sharding that is not a NamedSharding, for shardings on different meshes, or for a
//   sharding that splits an array along the axis of the replicas;
// - for a mesh with fewer than two axes, or an axis or replica that the mesh does not have;
// - if all devices are in the primary replica, or a device of the mesh belongs to no process or to
//   two;
// - outside the primary replica, for arguments without global_shape or dtype;
// - if the processes pass different arguments.
// Throws also as ArrayHandler. An error in one process fails all of them.
class SingleReplicaArrayHandler : public ArrayHandler {
 public:
  // Options of SingleReplicaArrayHandler. Negative indices count from the end.
  struct Options {
    // Index of the mesh axis along which the replicas lie.
    std::int64_t replica_axis_index = 0;
    std::int64_t primary_replica_id = 0;  // index on that axis of the replica that reads
    // Arrays are broadcast in groups of at most this many bytes per device; a larger array is
    // broadcast alone. None: the host memory that remains beside the arrays, times the scaling
    // factor (at most 1), divided by 3.
    std::optional<std::int64_t> broadcast_memory_limit_bytes = {};
    double broadcast_memory_scaling_factor = 0.75;  // see above
    ArrayHandler::Options array = {};               // options of the base class
  };
  SingleReplicaArrayHandler();
  explicit SingleReplicaArrayHandler(Options options);
  // Returns PRNG keys as their data, plain arrays of uint32, as Orbax does.
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;
  [[nodiscard]] bool restores_together() const override { return true; }

 private:
  Options options_;
};

// ---- the registry ----

// Maps leaf types and typestrs to handlers. A lookup by type takes the first entry whose predicate
// accepts the type; a lookup by typestr, the entry registered last. Do not change a registry while
// other threads use it.
class TypeHandlerRegistry {
 public:
  using Predicate = std::function<bool(std::type_index)>;  // whether a handler accepts a leaf type
  // Options of add().
  struct AddOptions {
    // Null: the type itself only. For std::int64_t, Python's int: also bool and std::uint64_t.
    Predicate accepts = {};
    bool override_existing = false;  // replace a handler
    Observer observer = {};          // told when a handler or a typestr is replaced; null: nobody
  };

  // If no entry accepts `type`, appends an entry; throws invalid_argument if the typestr is taken,
  // unless override_existing is set. If an entry accepts it, replaces that entry in place with
  // override_existing; else throws invalid_argument.
  void add(std::type_index type, TypeHandlerPtr handler, AddOptions options);
  void add(std::type_index type, TypeHandlerPtr handler) { add(type, std::move(handler), {}); }
  // The handler. Throws invalid_argument if none is registered.
  [[nodiscard]] TypeHandlerPtr get(std::type_index type) const;
  [[nodiscard]] TypeHandlerPtr get(std::string_view typestr) const;
  // Whether a handler is registered.
  [[nodiscard]] bool has(std::type_index type) const;
  [[nodiscard]] bool has(std::string_view typestr) const;
  // Every handler that lookups can return, each once.
  [[nodiscard]] std::vector<TypeHandlerPtr> handlers() const;

 private:
  [[nodiscard]] const TypeHandlerPtr* find(std::type_index type) const;

  std::vector<std::pair<Predicate, TypeHandlerPtr>> by_type_;
  std::map<std::string, TypeHandlerPtr, std::less<>> by_typestr_;
};

// A registry with the standard handlers: scalars, arrays, sharded arrays, strings, placeholders.
TypeHandlerRegistry standard_type_handlers();
// The registry that is used if none is given; it initially holds the standard handlers. This is the
// only global state of Cairn: change it at the start of the program.
TypeHandlerRegistry& default_type_handler_registry();

// Options of register_standard_handlers_with_options.
struct StandardHandlerOptions {
  NumpyHandler::Options numpy = {};
  ArrayHandler::Options array = {};
  ScalarHandler::Options scalar = {};
  Observer observer = {};  // told about every handler that is replaced; null: nobody
};
// Replaces the handlers of scalars, arrays and sharded arrays in the default registry by handlers
// with these options.
void register_standard_handlers_with_options(const StandardHandlerOptions& options);

// The types of leaves for which the default registry has handlers from the start, in the order of
// Orbax's: std::int64_t, double, Bytes, NumpyScalar, Array, ShardedArray, std::string, Placeholder.
std::vector<std::type_index> supported_types();

// The typestr as which a leaf is restored if the checkpoint does not record types: "jax.Array" for
// ArrayRestoreArgs, else "np.ndarray".
std::string_view default_restore_type(const AnyRestoreArgs& args);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
