// type_handler.h -- the interface of a type handler, which stores and restores the leaves of one
// type. Derive from TypeHandler to store a type of your own, and add the handler to a
// TypeHandlerRegistry (handlers.h). examples/custom_type_handler.cc shows one that stores arrays
// through ParamInfo::writer and reads them through ParamInfo::reader (item_storage.h).
#pragma once

#include <cairn/observer.h>
#include <cairn/orbax/array_spec.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeindex>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

class ByteLimiter;  // byte_limiter.h
class ItemReader;   // item_storage.h
class ItemWriter;   // item_storage.h

// The C++ type of a leaf's value, which selects its handler: typeid(bool), typeid(Array), or the
// type of the value in a CustomLeaf. Throws invalid_argument for containers and empty nodes, which
// have no handlers.
std::type_index leaf_type(const Tree& leaf);

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

}  // namespace cairn::inline v0
#pragma GCC visibility pop
