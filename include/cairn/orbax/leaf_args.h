// leaf_args.h -- options for saving or restoring a single leaf, under Orbax's names. They are
// leaves of a tree of arguments: Tree(SaveArgs{.dtype = DType::kBfloat16}). None stands for the
// defaults.
#pragma once

#include <cairn/orbax/sharding.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// How a leaf is saved.
struct SaveArgs {
  bool aggregate = false;  // deprecated and without effect, as in Orbax
  // Type in which it is stored; values are converted as C converts numbers. None: its own type.
  std::optional<DType> dtype = {};
  std::optional<std::int64_t> chunk_byte_size = {};  // maximum bytes of a stored chunk
  std::vector<std::int64_t> shard_axes = {};         // dimensions that are split first
  // From an older version of Orbax; for Zarr v3 only, and not with shard_axes. write_chunk_shape is
  // the shape of a shard, which is stored as one value; it divides the pieces in which the array is
  // written. read_chunk_shape is the shape of the chunks in a shard, which can be read separately;
  // it divides the shard. Either may be omitted: a shard is then a piece, and has one chunk. With
  // either, chunk_byte_size is ignored.
  std::optional<Shape> write_chunk_shape = {};
  std::optional<Shape> read_chunk_shape = {};
};

// Whether the leaf with this path is copied before a background save returns.
using IsPrioritizedKeyFn = std::function<bool(const KeyPath&)>;

// The type as which a leaf is restored: a typestr ("np.ndarray"), or a C++ type with a registered
// handler.
class RestoreType {
 public:
  RestoreType(std::string typestr)
      : type_(std::move(typestr)) {}  // NOLINT(google-explicit-constructor)
  RestoreType(const char* typestr)
      : type_(std::string(typestr)) {}                // NOLINT(google-explicit-constructor)
  RestoreType(std::type_index type) : type_(type) {}  // NOLINT(google-explicit-constructor)

  // the typestr, or nullptr
  [[nodiscard]] const std::string* typestr() const { return std::get_if<std::string>(&type_); }
  // the C++ type, or nullptr
  [[nodiscard]] const std::type_index* type() const { return std::get_if<std::type_index>(&type_); }

 private:
  std::variant<std::string, std::type_index> type_;
};

// How a leaf is restored.
struct RestoreArgs {
  std::optional<RestoreType> restore_type = {};  // none: the type as which it was saved
  std::optional<DType> dtype = {};               // none: as stored
};

// How an array is restored onto devices.
struct ArrayRestoreArgs {
  std::optional<RestoreType> restore_type = RestoreType("jax.Array");
  std::optional<DType> dtype = {};  // none: as stored
  // Placement of the shards: mesh with mesh_axes, else sharding, else the stored sharding.
  // For values of the msgpack file of older checkpoints, sharding comes before mesh and mesh_axes,
  // one of them is required, and a shape must have as many elements as the stored array.
  std::optional<Mesh> mesh = {};
  std::optional<PartitionSpec> mesh_axes = {};
  std::optional<Sharding> sharding = {};
  // Shape of the result, under either name; none: the stored shape. Two different shapes are
  // invalid_argument.
  std::optional<Shape> global_shape = {};
  std::optional<Shape> shape = {};
  // True: a shape other than the stored one is an error. False: the array is truncated, or padded
  // with zeros, at the end of each dimension.
  bool strict = true;
};

// How an array is restored that one replica reads and broadcasts to the others.
// SingleReplicaArrayHandler requires these arguments; other handlers treat them as
// ArrayRestoreArgs. `sharding` is required (mesh with mesh_axes does not replace it). Processes
// that do not read must also give global_shape (or shape) and dtype.
struct SingleReplicaArrayRestoreArgs : ArrayRestoreArgs {
  // Deprecated, as in Orbax: Cairn determines it. If given, its spec must be the array's, on the
  // mesh of `sharding`; its devices must belong to one replica, each with the part that it holds
  // there.
  std::optional<NamedSharding> single_replica_sharding = {};
};

// The arguments of any leaf.
using AnyRestoreArgs = std::variant<RestoreArgs, ArrayRestoreArgs, SingleReplicaArrayRestoreArgs>;
// The arguments as those of an array; null if they are RestoreArgs.
inline const ArrayRestoreArgs* array_restore_args(const AnyRestoreArgs& args) {
  const auto* single = std::get_if<SingleReplicaArrayRestoreArgs>(&args);
  return single != nullptr ? single : std::get_if<ArrayRestoreArgs>(&args);
}
inline ArrayRestoreArgs* array_restore_args(AnyRestoreArgs& args) {
  auto* single = std::get_if<SingleReplicaArrayRestoreArgs>(&args);
  return single != nullptr ? single : std::get_if<ArrayRestoreArgs>(&args);
}

// The description of an array without values (jax.ShapeDtypeStruct): a leaf of a restore target.
struct ShapeDtypeStruct {
  Shape shape;
  DType dtype = DType::kFloat32;
  // For information only: a restore takes the sharding from its arguments (ArrayRestoreArgs).
  std::optional<Sharding> sharding = {};
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
