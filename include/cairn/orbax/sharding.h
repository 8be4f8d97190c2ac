// sharding.h -- the placement of an array on devices: meshes, partition specs, shardings, and
// arrays whose parts lie on many devices (ShardedArray), with the meaning that JAX and Orbax give
// them.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// ---- shardings ----

// Type of a mesh axis, as in JAX (jax.sharding.AxisType).
enum class AxisType : std::uint8_t { kAuto, kExplicit, kManual };

// Device ids. Copies share the ids, because there may be many, and every array of a model has the
// same.
class DeviceIds {
 public:
  using value_type = std::int64_t;
  using iterator = std::span<const std::int64_t>::iterator;
  using const_iterator = iterator;

  DeviceIds() = default;
  DeviceIds(std::vector<std::int64_t> ids);  // NOLINT(google-explicit-constructor)
  DeviceIds(std::initializer_list<std::int64_t> ids) : DeviceIds(std::vector<std::int64_t>(ids)) {}

  [[nodiscard]] std::span<const std::int64_t> span() const {
    return ids_ ? std::span<const std::int64_t>(*ids_) : std::span<const std::int64_t>();
  }
  [[nodiscard]] auto begin() const { return span().begin(); }
  [[nodiscard]] auto end() const { return span().end(); }
  [[nodiscard]] std::size_t size() const { return span().size(); }
  [[nodiscard]] bool empty() const { return span().empty(); }
  std::int64_t operator[](std::size_t i) const { return (*ids_)[i]; }
  bool operator==(const DeviceIds& other) const;

 private:
  std::shared_ptr<const std::vector<std::int64_t>> ids_;  // null: no ids
};

// Devices in an n-dimensional grid with named axes (jax.sharding.Mesh).
struct Mesh {
  Shape shape;                          // devices along each axis, at least 1; no axes: one device
  std::vector<std::string> axis_names;  // one per axis: unique, not empty
  // One per axis; empty: not recorded (older files), which JAX treats as kAuto.
  std::vector<AxisType> axis_types = {};
  // In C order, unique; empty: not recorded (older files).
  DeviceIds device_ids = {};
  bool operator==(const Mesh&) const = default;
};
// A mesh with axes of type kAuto over the devices first_device, first_device + 1, ...
Mesh make_mesh(Shape shape, std::vector<std::string> axis_names, std::int64_t first_device = 0);

// For each dimension of the array, the mesh axes that split it, outermost first; an empty list: not
// split. Dimensions beyond the end are not split. JAX's P('x', None, ('y', 'z')) is {{"x"}, {},
// {"y", "z"}}.
using PartitionSpec = std::vector<std::vector<std::string>>;

// A partition of an array over a mesh (jax.sharding.NamedSharding).
struct NamedSharding {
  Mesh mesh;
  PartitionSpec spec;
  bool operator==(const NamedSharding&) const = default;
};

// The whole array on one device.
struct SingleDeviceSharding {
  // As JAX prints the device: "cpu:0", "cuda:3", "TPU_2(process=0,(1,0,0,0))"; older: "TFRT_CPU_0".
  std::string device;
  // "TFRT_CPU_n" equals "cpu:n".
  bool operator==(const SingleDeviceSharding& other) const;
};

// Any other placement, given box by box. Orbax has no text for it, so it is never stored.
struct ExplicitSharding {
  // The box of one device, in the array's coordinates.
  struct Part {
    std::int64_t device_id = 0;
    Box box;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;  // one per device
  bool operator==(const ExplicitSharding&) const = default;
};

// A stored sharding of a type that Cairn does not know (PositionalSharding, a newer type). Cairn
// keeps and shows it, but it places nothing.
struct UnknownSharding {
  std::string json;  // the stored text
  bool operator==(const UnknownSharding&) const = default;
};

// Any sharding.
using Sharding =
    std::variant<NamedSharding, SingleDeviceSharding, ExplicitSharding, UnknownSharding>;

// The box that one device holds. Devices with the same box are replicas of it, numbered 0, 1, ...
// in the order of the devices.
struct DeviceBox {
  std::int64_t device_id = 0;
  Box box;  // in the array's coordinates
  std::int64_t replica = 0;
  bool operator==(const DeviceBox&) const = default;
};

// Makes the checks of JAX's constructor. Throws invalid_argument unless the mesh is valid (sizes,
// names, ids; at most 64 axes and 2^20 devices) and the spec names only axes of the mesh, each at
// most once.
void check_sharding(const NamedSharding& sharding);

// The box of every device for an array of `shape`, in the order of the devices in the mesh: JAX's
// devices_indices_map, with its replica numbers. A mesh without device ids has devices 0, 1, 2, ...
//
// Throws as check_sharding; invalid_argument for a spec longer than the rank, for an extent that
// its axes do not divide (naming both), and for parts outside the array or of another rank;
// unimplemented for an axis of type kManual with more than one device, which places nothing;
// failed_precondition for an UnknownSharding.
std::vector<DeviceBox> device_boxes(const Sharding& sharding, std::span<const std::int64_t> shape);
// Number of devices. Throws as check_sharding; failed_precondition for an UnknownSharding.
std::size_t device_count(const Sharding& sharding);
// Shape of every device's box. Throws as device_boxes; failed_precondition if the shapes differ.
Shape shard_shape(const Sharding& sharding, std::span<const std::int64_t> shape);
// Number of devices that hold each box. Throws as device_boxes; failed_precondition if the numbers
// differ.
std::int64_t replica_count(const Sharding& sharding, std::span<const std::int64_t> shape);
// Whether every device holds the whole array. Throws as device_boxes.
bool is_fully_replicated(const Sharding& sharding, std::span<const std::int64_t> shape);

// ---- arrays in parts ----

// Host memory that holds a shard; the view may have any strides. `owner` keeps the memory alive; if
// it is null, the caller does.
struct HostMemory {
  ArrayView view;
  std::shared_ptr<const void> owner;
};
// Copies the elements of `part`, in the shard's own coordinates, to `out` (host memory with part's
// shape and any strides). Called from several threads at once for different parts; an
// implementation that does not support this takes a lock. Its exceptions reach the caller of the
// copy.
using ShardCopy = std::function<void(const Box& part, const MutableArrayView& out)>;

// One device's part of an array.
struct ArrayShard {
  std::int64_t device_id = 0;
  Box box;                   // in the array's coordinates
  std::int64_t replica = 0;  // number of this copy of the box
  // The values; monostate: a description without values.
  std::variant<std::monostate, HostMemory, ShardCopy> source = {};
};

// An array whose parts lie on devices, some of them held by this process. It is a custom leaf of a
// Tree; tree.custom<ShardedArray>() returns it. A typed PRNG key is stored
// as its key data: uint32, with the dimensions of the key at the end (also in `sharding` and in
// boxes), and the name of its implementation.
struct ShardedArray {
  Shape shape;  // of the whole array
  DType dtype = DType::kFloat32;
  Sharding sharding;
  std::string random_key_impl = {};  // "threefry2x32", "rbg", "unsafe_rbg"; "": an ordinary array
  std::vector<ArrayShard> shards = {};  // shards on this process's devices

  // Makes a ShardedArray from a host array without a copy: every shard is a view into it. With
  // `devices`, the result has only their shards, as in a process that holds these devices. Throws
  // as device_boxes; invalid_argument for kOpaque.
  static ShardedArray from_array(const Array& array, Sharding sharding);
  static ShardedArray from_array(const Array& array, Sharding sharding,
                                 std::span<const std::int64_t> devices);
};

// Copies the elements of `box` (in the array's coordinates) from the shards to `out`, which has the
// shape of the box and the array's dtype. Throws out_of_range for a box outside the array;
// failed_precondition, naming the missing part, if this process's shards do not cover the box.
void copy_box(const ShardedArray& array, const Box& box, const MutableArrayView& out);
// Copies the whole array to host memory. Throws as copy_box.
Array gather_shards(const ShardedArray& array);

// ---- the text in Orbax's `_sharding` ----

// The JSON text, byte-identical to Orbax's; nullopt for an ExplicitSharding, which Orbax does not
// write. Throws as check_sharding.
std::optional<std::string> sharding_json(const Sharding& sharding);
// Inverse of sharding_json. Text of older versions lacks axis types and device ids. A type that
// Cairn does not know becomes an UnknownSharding. Throws data_loss, naming the member, for text
// that is not a sharding.
Sharding parse_sharding(std::string_view json);

// For people: "NamedSharding(x=4,y=2; P('x', None))", "SingleDeviceSharding(cpu:0)".
std::string sharding_text(const Sharding& sharding);

// ---- saving: which process writes what ----

// Options of plan_pieces.
struct PieceOptions {
  // The replica that writes a shard that one replica writes whole. nullopt: the first replica that
  // this process holds (each process saves for itself); excludes use_replica_parallel.
  std::optional<std::int64_t> replica_id = 0;
  // Replicas write parts of their shard, if a dimension is divisible by their number.
  bool use_replica_parallel = true;
  std::int64_t min_slice_bytes = 0;  // do not split a shard into parts smaller than this, in bytes
  // maximum number of replicas that share a shard; none: no limit
  std::optional<std::int64_t> max_replicas = {};
};

// How an array is split for storage. `write_shape` tiles the array and is the same in every
// process.
struct WritePlan {
  Shape write_shape;          // shape of a tile
  std::int64_t replicas = 1;  // number of devices that hold each part of the array
  // For each shard of the array: the box that it writes, in the array's coordinates; nullopt: none.
  std::vector<std::optional<Box>> pieces;
};
// Splits an array exactly as Orbax does. The shards need no values. Throws as device_boxes;
// invalid_argument for a replica_id of nullopt with use_replica_parallel, for shards that
// contradict the sharding, and for parts that do not tile a grid.
WritePlan plan_pieces(const ShardedArray& array, const PieceOptions& options = {});

// ---- restoring: choosing a sharding ----

// A NamedSharding, checked by check_sharding.
NamedSharding named_sharding(Mesh mesh, PartitionSpec spec);

// The sharding of the key data of an array of PRNG keys with this sharding, as JAX makes it:
// `key_rank` more dimensions, which are not split. A sharding on one device stays unchanged.
Sharding key_data_sharding(const Sharding& sharding, std::size_t key_rank = 1);

// An available device.
struct Device {
  std::int64_t id = 0;  // device id
  std::string text;     // as JAX prints the device
};
// The sharding on the available devices. Missing device ids are filled in (all devices, in the
// given order), and missing axis types become kAuto. Otherwise the error explains why the sharding
// cannot be used: devices are absent, their number differs, or the type is unknown.
Result<Sharding> usable_sharding(const Sharding& sharding, std::span<const Device> available);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
