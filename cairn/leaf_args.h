// leaf_args.h -- what may be said of a single leaf when it is saved or restored, under Orbax's
// names. Arguments are put into trees as custom leaves: Tree(CustomLeaf::of(SaveArgs{.dtype =
// DType::kBfloat16})); None stands for the defaults.
#pragma once

#include <cairn/sharding.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

struct SaveArgs {
  bool aggregate = false;  // deprecated and without effect, as in Orbax
  // that it is stored as; converted as C converts numbers
  std::optional<DType> dtype;
  std::optional<std::int64_t> chunk_byte_size;  // most bytes of a stored chunk
  std::vector<std::int64_t> shard_axes;         // axes that are split first
  // Of an older version of Orbax, for Zarr v3 only and not with shard_axes: the shape of what is
  // stored as one value (a shard), which divides the pieces that the array is written in, and that
  // of the chunks in it that can be read alone, which divides the former. Either may be left out: a
  // shard is a piece then, and has one chunk. With either, chunk_byte_size is passed over.
  std::optional<Shape> write_chunk_shape;
  std::optional<Shape> read_chunk_shape;
};

// What a leaf is to be restored as: a typestr ("np.ndarray"), or a C++ type that a handler is
// registered for.
class RestoreType {
 public:
  RestoreType(std::string typestr)
      : type_(std::move(typestr)) {}  // NOLINT(google-explicit-constructor)
  RestoreType(const char* typestr)
      : type_(std::string(typestr)) {}                // NOLINT(google-explicit-constructor)
  RestoreType(std::type_index type) : type_(type) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] const std::string* typestr() const { return std::get_if<std::string>(&type_); }
  [[nodiscard]] const std::type_index* type() const { return std::get_if<std::type_index>(&type_); }

 private:
  std::variant<std::string, std::type_index> type_;
};

struct RestoreArgs {
  std::optional<RestoreType> restore_type;  // none: what it was saved as
  std::optional<DType> dtype;               // none: as stored
};

struct ArrayRestoreArgs {
  std::optional<RestoreType> restore_type = RestoreType("jax.Array");
  std::optional<DType> dtype;
  // Where the shards go: mesh with mesh_axes, else sharding, else the stored one.
  std::optional<Mesh> mesh;
  std::optional<PartitionSpec> mesh_axes;
  std::optional<Sharding> sharding;
  // The shape to be restored, under either name; two that differ are invalid_argument. None: the
  // stored one.
  std::optional<Shape> global_shape;
  std::optional<Shape> shape;
  // a shape that is not the stored one is an error; false: it is cut off, or filled up with zeros,
  // at the end
  bool strict = true;
};

// Of an array that one replica reads and gives to the others (SingleReplicaArrayHandler, which
// wants these and no others). `sharding` is needed, and mesh with mesh_axes does not stand for it;
// processes that do not read need global_shape (or shape) and dtype, too. For any other handler
// they are ArrayRestoreArgs.
struct SingleReplicaArrayRestoreArgs : ArrayRestoreArgs {
  // Deprecated, as in Orbax: it is found out. Where it is given, the array's spec is its, on the
  // mesh of `sharding`; its devices must be of one replica, each with the part that it has there.
  std::optional<NamedSharding> single_replica_sharding = {};
};

using AnyRestoreArgs = std::variant<RestoreArgs, ArrayRestoreArgs, SingleReplicaArrayRestoreArgs>;
// The arguments as those of an array; null if they are of any leaf.
inline const ArrayRestoreArgs* array_restore_args(const AnyRestoreArgs& args) {
  const auto* single = std::get_if<SingleReplicaArrayRestoreArgs>(&args);
  return single != nullptr ? single : std::get_if<ArrayRestoreArgs>(&args);
}
inline ArrayRestoreArgs* array_restore_args(AnyRestoreArgs& args) {
  auto* single = std::get_if<SingleReplicaArrayRestoreArgs>(&args);
  return single != nullptr ? single : std::get_if<ArrayRestoreArgs>(&args);
}

// An array that is only described (jax.ShapeDtypeStruct): a leaf of a target to restore into.
struct ShapeDtypeStruct {
  Shape shape;
  DType dtype = DType::kFloat32;
  std::optional<Sharding> sharding;
};

}  // namespace cairn
