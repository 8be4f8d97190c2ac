// handlers.h -- how the leaves of a pytree are stored: a handler for each type of leaf, and the
// registry that finds it. The names, rules and outcomes are those of Orbax's type handlers.
#pragma once

#include <cairn/array_spec.h>
#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/leaf_args.h>
#include <cairn/limits.h>
#include <cairn/sharding.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

namespace cairn {

// The C++ type of a leaf's value, by which its handler is found: typeid(bool), typeid(Array), or
// what a CustomLeaf holds. Throws invalid_argument for containers and empty nodes, which have no
// handlers.
std::type_index leaf_type(const Tree& leaf);

// ---- where handlers put values, and get them from ----

// One of the processes that save an item together.
struct SavingProcess {
  std::size_t index = 0;
  std::size_t count = 1;
  bool is_primary = true;  // writes what is not divided: host values, texts, metadata
  bool is_apart = false;   // each process saves into a folder of its own
};

// What one process stores of an array.
struct StorePart {
  Box box;         // in the array's coordinates
  ArrayView from;  // its elements, any strides; null: copied when they are wanted
};

// An array to be stored under a parameter name.
struct StoreArray {
  std::string name;
  DType dtype = DType::kUint8;         // that it is stored as
  DType source_dtype = DType::kUint8;  // that its elements are given as
  Shape shape;
  Shape write_shape;  // of the pieces that it is stored in; empty: it is one piece
  std::optional<std::int64_t> chunk_byte_size;
  std::vector<std::int64_t> shard_axes;
  std::optional<Shape> write_chunk_shape, read_chunk_shape;  // as in SaveArgs
  // what its metadata is called below its name; "": .zarray or zarr.json
  std::string metadata_key;
  // Its elements in C order and who keeps them; or, if data is null, how parts of them are copied
  // out when they are wanted, from one thread at a time.
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::function<void(const Box& part, const MutableArrayView& out)> copy;
  // a jax.Array: its pieces are recorded in array_metadatas and in _METADATA
  bool device_array = false;
  // arrays of a lower number are written before the first one of a higher is copied
  int priority = 0;
  std::string sharding;         // JSON text for _sharding; "" for none
  std::string random_key_impl;  // of a typed PRNG key
  // Of an array that several processes store together: what this one does, each part one of
  // write_shape's. Not set: all of it. `owner` keeps what they point to.
  std::optional<std::vector<StorePart>> parts;
  // its values go to a database beside that of other arrays, where processes have their own
  bool in_replica_folder = false;
};

// Takes note of what handlers want stored; it is written in one go when all have been asked.
class ItemWriter {
 public:
  ItemWriter() = default;
  ItemWriter(const ItemWriter&) = delete;
  ItemWriter& operator=(const ItemWriter&) = delete;
  virtual ~ItemWriter() = default;

  virtual void add_array(StoreArray array) = 0;
  virtual void add_string(std::string name, std::string text) = 0;
  // Whether the caller goes on before everything is written: values it may change must then be
  // copied first.
  [[nodiscard]] virtual bool is_background() const = 0;
  // Ready once everything that was added is written; carries the error if it cannot be.
  [[nodiscard]] virtual std::shared_future<void> written() const = 0;
  // Who saves. Host values that are added in a process that is not primary are not stored.
  [[nodiscard]] virtual SavingProcess process() const { return {}; }
};

// What is stored. Safe to use from many threads.
class ItemReader {
 public:
  // A box of a stored array into memory of its dtype.
  struct Read {
    std::string_view name;
    Box box;
    MutableArrayView out;
  };

  ItemReader() = default;
  ItemReader(const ItemReader&) = delete;
  ItemReader& operator=(const ItemReader&) = delete;
  virtual ~ItemReader() = default;

  // dtype, shape and chunks of each. Throws not_found if there is no such array, data_loss if its
  // metadata is damaged.
  [[nodiscard]] std::vector<TensorInfo> arrays(std::span<const std::string_view> names) const {
    return arrays_under(names, "");
  }
  // The same where their metadata has a name of its own (StoreArray::metadata_key).
  [[nodiscard]] virtual std::vector<TensorInfo> arrays_under(
      std::span<const std::string_view> names, const std::string& metadata_key) const = 0;
  // How the array was spread over devices, as JSON: "" if nothing is recorded for it, nullopt if
  // nothing is for any array.
  [[nodiscard]] virtual std::optional<std::string> sharding(const std::string& name) const = 0;
  // The implementation of the typed PRNG key that the array is the data of; "" if it is none.
  [[nodiscard]] virtual std::string random_key_impl(const std::string& name) const = 0;
  // All as one plan, in parallel. Throws, naming the array.
  virtual void read(std::span<const Read> reads) const = 0;
  // Throws not_found.
  [[nodiscard]] virtual std::string string(const std::string& name) const = 0;
  // With whom it is restored, and which devices are this process's.
  [[nodiscard]] virtual MultiprocessingOptions processes() const { return {}; }
};

// ---- handlers ----

using IsPrioritizedKeyFn = std::function<bool(const KeyPath&)>;

// What a handler is told about a leaf beside its value; made by PyTreeCheckpointHandler.
struct ParamInfo {
  std::string name;  // keys joined with '.'
  KeyPath keypath;
  std::string parent_dir;  // the item's folder
  bool skip_deserialize = false;
  std::optional<bool> is_ocdbt_checkpoint;
  bool use_compression = true;
  bool use_zarr3 = false;
  std::optional<std::int64_t> ocdbt_target_data_file_size;
  std::string value_typestr;
  bool raise_array_data_missing_error = true;
  std::optional<Shape> write_shape;
  std::shared_ptr<ByteLimiter> byte_limiter;
  std::shared_ptr<ByteLimiter> device_host_byte_limiter;
  IsPrioritizedKeyFn is_prioritized_key_fn;
  std::shared_ptr<ItemWriter> writer;        // while saving
  std::shared_ptr<const ItemReader> reader;  // while restoring

  // parent_dir/name: where the leaf's files are, if it has a folder of its own
  [[nodiscard]] std::string path() const;
};

// What is known of a stored leaf without reading its value. A tree of metadata has these as custom
// leaves.
struct ValueMetadata {
  std::string typestr;
  std::string name;
  std::string directory;
  std::optional<Shape> shape;        // arrays and scalars
  std::optional<DType> dtype;        // that it is stored as
  std::optional<Sharding> sharding;  // jax.Array, if one is stored
  std::optional<StorageMetadata> storage;
};

// Stores and restores leaves of one type. Calls are batched: all leaves of an item that have this
// handler come at once.
class TypeHandler {
 public:
  using Futures = std::vector<std::shared_future<void>>;

  TypeHandler() = default;
  TypeHandler(const TypeHandler&) = delete;
  TypeHandler& operator=(const TypeHandler&) = delete;
  virtual ~TypeHandler() = default;

  // What `_METADATA` calls leaves of this handler. Unique in a registry.
  [[nodiscard]] virtual std::string typestr() const = 0;
  // What is stored, without values.
  [[nodiscard]] virtual std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const = 0;
  // Copies what the caller may change before the futures are ready, and hands the values to
  // infos[i].writer, or writes files of its own below infos[i].parent_dir. The spans run parallel
  // and are not empty (check_input_arguments).
  virtual Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                            std::span<const SaveArgs> args) const = 0;
  // The leaves, in the order of `infos`.
  [[nodiscard]] virtual std::vector<Tree> deserialize(
      std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args) const = 0;
  // Whether the processes meet in deserialize. Then all call restore alike, and what fails in one
  // before it comes there fails in all.
  [[nodiscard]] virtual bool restores_together() const { return false; }
  // Called when all values of an item are written, before it is committed.
  virtual void finalize(const std::string& /*directory*/) const {}
};
using TypeHandlerPtr = std::shared_ptr<const TypeHandler>;

// Throws invalid_argument for spans of length 0 and for lengths that differ.
void check_input_arguments(std::initializer_list<std::size_t> lengths);

// np.ndarray: an Array, stored whole.
class NumpyHandler : public TypeHandler {
 public:
  struct Options {
    // What the metadata of arrays is called below their names; "": .zarray or zarr.json. Nothing
    // records it, so whoever restores has to know it; for Zarr v2 only, and in a database only
    // without enable_post_merge_validation, which looks for .zarray.
    std::string metadata_key;
    // before a save in the background goes on; false: the caller leaves them alone
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
  [[nodiscard]] std::string typestr() const override { return "scalar"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override;
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override;
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;
};

// string: texts, all in one file.
class StringHandler : public TypeHandler {
 public:
  [[nodiscard]] std::string typestr() const override { return "string"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override;
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override;
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;
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

// When a device's array is copied to the host.
enum class TransferPriority : std::uint8_t {
  kSynchronous,               // before save returns; not subject to the device-to-host limit
  kAsynchronousPrioritized,   // in the background, first
  kAsynchronousDeprioritized  // in the background, once all prioritized ones are written
};

// jax.Array: a ShardedArray, stored in the pieces that its devices hold. Of several processes, each
// stores those of its own devices; an array all of whose devices are one process's is then
// invalid_argument.
class ArrayHandler : public TypeHandler {
 public:
  struct Options {
    std::string metadata_key;  // as of NumpyHandler
    // the replica that writes where pieces are not shared out
    std::optional<std::int64_t> replica_id = 0;
    bool use_replica_parallel = true;  // replicas share out the pieces
    std::int64_t min_slice_bytes_for_replica_parallel = 0;
    std::optional<std::int64_t> max_replicas_for_replica_parallel;
    bool enable_write_sharding_file = true;
    // Where several processes save: arrays that are replicated go to databases of their own,
    // ocdbt.process_replica_<i>.
    bool enable_replica_parallel_separate_folder = false;
    // Null: what the checkpoint handler's is_prioritized_key_fn says, else synchronous.
    std::function<TransferPriority(const KeyPath&)> key_priority;
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

// jax.Array, where devices are in replicas, which lie along an axis of the mesh, and only one of
// these shall read: its processes give what they have read to those of the others. For jobs with
// many replicas, which would all read the same bytes from a storage that they share. Registered in
// place of ArrayHandler, as which it saves and describes:
//
//   registry.add(typeid(ShardedArray), std::make_shared<SingleReplicaArrayHandler>(options),
//   {.override_existing = true});
//
// All processes restore alike, each with its `local_devices` (MultiprocessingOptions): the same
// arrays with the same SingleReplicaArrayRestoreArgs. Each gets the shards of its own devices.
// docs/distributed.md tells how, and what it costs.
//
// Throws invalid_argument for arguments of another kind or without sharding, for shardings that are
// no NamedShardings, not on one mesh, or split an array along the axis of the replicas; for a mesh
// with fewer than two axes, for an axis or replica that it does not have, if all devices are in the
// primary replica, for devices of the mesh that are nobody's or two processes'; outside the primary
// replica for arguments without global_shape or dtype; where processes do not mean the same; and
// whatever ArrayHandler throws. What fails in one process fails in all.
class SingleReplicaArrayHandler : public ArrayHandler {
 public:
  struct Options {
    // Negative ones count from the end.
    // of the mesh's axes, the one along which the replicas lie
    std::int64_t replica_axis_index = 0;
    std::int64_t primary_replica_id = 0;  // the place on it of the one that reads
    // Arrays are broadcast in groups that take so many bytes on a device, a larger one alone. None:
    // what the host has beside the arrays themselves, times the factor (at most 1), over 3.
    std::optional<std::int64_t> broadcast_memory_limit_bytes;
    double broadcast_memory_scaling_factor = 0.75;
    ArrayHandler::Options array = {};  // what else it is
  };
  SingleReplicaArrayHandler();
  explicit SingleReplicaArrayHandler(Options options);
  // PRNG keys come back as their data, as in Orbax: plain arrays of uint32.
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs> args) const override;
  [[nodiscard]] bool restores_together() const override { return true; }

 private:
  Options options_;
};

// ---- the registry ----

// Which handler a leaf has. Lookups by type take the first entry whose predicate accepts it; by
// typestr, the one registered last. Not to be changed while others look.
class TypeHandlerRegistry {
 public:
  using Predicate = std::function<bool(std::type_index)>;
  struct AddOptions {
    Predicate accepts;  // null: the type itself
    bool override_existing = false;
  };

  // Without an entry that accepts `type`: appended; a typestr that is taken is invalid_argument,
  // unless overridden. With one: invalid_argument, or replaced in its place.
  void add(std::type_index type, TypeHandlerPtr handler, AddOptions options);
  void add(std::type_index type, TypeHandlerPtr handler) { add(type, std::move(handler), {}); }
  // Throws invalid_argument for what is not registered.
  [[nodiscard]] TypeHandlerPtr get(std::type_index type) const;
  [[nodiscard]] TypeHandlerPtr get(std::string_view typestr) const;
  [[nodiscard]] bool has(std::type_index type) const;
  [[nodiscard]] bool has(std::string_view typestr) const;
  // Every handler that lookups can find, each once.
  [[nodiscard]] std::vector<TypeHandlerPtr> handlers() const;

 private:
  [[nodiscard]] const TypeHandlerPtr* find(std::type_index type) const;

  std::vector<std::pair<Predicate, TypeHandlerPtr>> by_type_;
  std::map<std::string, TypeHandlerPtr, std::less<>> by_typestr_;
};

// A registry with the standard handlers: scalars, arrays, sharded arrays, texts, placeholders.
TypeHandlerRegistry standard_type_handlers();
// The one that is used where none is given; it starts with the standard handlers. The only global
// state of Cairn: change it at the start of the program.
TypeHandlerRegistry& default_type_handler_registry();

struct StandardHandlerOptions {
  NumpyHandler::Options numpy;
  ArrayHandler::Options array;
};
// Replaces the handlers of scalars, arrays and sharded arrays in the default registry by ones with
// these options.
void register_standard_handlers_with_options(const StandardHandlerOptions& options);

// What a leaf of a checkpoint that does not record types is restored as: "jax.Array" for
// ArrayRestoreArgs, else "np.ndarray".
std::string_view default_restore_type(const AnyRestoreArgs& args);

}  // namespace cairn
