// handlers.h -- the standard type handlers, their options, and the registry of handlers. Names,
// rules and results are those of Orbax's type handlers.
#pragma once

#include <cairn/observer.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/type_handler.h>
#include <cairn/tree.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

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
// devices. docs/guides/distributed.md describes the protocol and its cost.
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
