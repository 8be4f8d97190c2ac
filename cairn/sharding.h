// sharding.h -- who holds which part of an array: meshes of devices, partition specs, and arrays
// whose parts lie on many devices (ShardedArray), as JAX and Orbax mean them.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

// ---- shardings ----

enum class AxisType : std::uint8_t { kAuto, kExplicit, kManual };

// Numbers of devices; copies share them, since there may be many, and every array of a model names
// the same.
class DeviceIds {
 public:
  using value_type = std::int64_t;
  using iterator = std::span<const std::int64_t>::iterator;
  using const_iterator = iterator;

  DeviceIds() = default;
  DeviceIds(std::vector<std::int64_t> ids)  // NOLINT(google-explicit-constructor)
      : ids_(std::make_shared<const std::vector<std::int64_t>>(std::move(ids))) {}
  DeviceIds(std::initializer_list<std::int64_t> ids) : DeviceIds(std::vector<std::int64_t>(ids)) {}

  [[nodiscard]] std::span<const std::int64_t> span() const {
    return ids_ ? std::span<const std::int64_t>(*ids_) : std::span<const std::int64_t>();
  }
  [[nodiscard]] auto begin() const { return span().begin(); }
  [[nodiscard]] auto end() const { return span().end(); }
  [[nodiscard]] std::size_t size() const { return span().size(); }
  [[nodiscard]] bool empty() const { return span().empty(); }
  std::int64_t operator[](std::size_t i) const { return (*ids_)[i]; }
  bool operator==(const DeviceIds& other) const {
    return ids_ == other.ids_ || std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::shared_ptr<const std::vector<std::int64_t>> ids_;  // null: none
};

// Devices in an n-dimensional grid whose axes have names (jax.sharding.Mesh).
struct Mesh {
  Shape shape;                          // devices along each axis, at least 1; no axes: one device
  std::vector<std::string> axis_names;  // one an axis, all different, none empty
  // one an axis; empty: not recorded (older files), which JAX takes for kAuto
  std::vector<AxisType> axis_types;
  // in C order, all different; empty: not recorded (older files)
  DeviceIds device_ids;
  bool operator==(const Mesh&) const = default;
};
// A mesh with axes of type kAuto over devices first_device, first_device + 1, ...
Mesh make_mesh(Shape shape, std::vector<std::string> axis_names, std::int64_t first_device = 0);

// For each dimension of the array the mesh axes that split it, the first one outermost; none: not
// split. Dimensions beyond its end are not split. JAX's P('x', None, ('y', 'z')) is {{"x"}, {},
// {"y", "z"}}.
using PartitionSpec = std::vector<std::vector<std::string>>;

struct NamedSharding {
  Mesh mesh;
  PartitionSpec spec;
  bool operator==(const NamedSharding&) const = default;
};

// All of the array on one device.
struct SingleDeviceSharding {
  // as JAX prints it: "cpu:0", "cuda:3", "TPU_2(process=0,(1,0,0,0))"; older: "TFRT_CPU_0"
  std::string device;
  // "TFRT_CPU_n" equals "cpu:n".
  bool operator==(const SingleDeviceSharding& other) const;
};

// Any other placement, box by box. Orbax has no text for it, so it is never stored.
struct ExplicitSharding {
  struct Part {
    std::int64_t device_id = 0;
    Box box;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;  // one a device
  bool operator==(const ExplicitSharding&) const = default;
};

// A stored sharding of a type Cairn does not know (PositionalSharding, a newer one): kept and
// shown, but it places nothing.
struct UnknownSharding {
  std::string json;
  bool operator==(const UnknownSharding&) const = default;
};

using Sharding =
    std::variant<NamedSharding, SingleDeviceSharding, ExplicitSharding, UnknownSharding>;

// What one device holds. Devices that hold the same box are its replicas, numbered 0, 1, ... in the
// order of the devices.
struct DeviceBox {
  std::int64_t device_id = 0;
  Box box;
  std::int64_t replica = 0;
  bool operator==(const DeviceBox&) const = default;
};

// What JAX's constructor checks: throws invalid_argument unless the mesh is sound (sizes, names,
// ids; at most 64 axes and 2^20 devices) and the spec names each of its axes at most once and no
// others.
void check_sharding(const NamedSharding& sharding);

// What every device holds of an array of `shape`, in the order of the devices in the mesh: JAX's
// devices_indices_map and its replica numbers. A mesh without device ids counts as devices 0, 1, 2,
// ... Throws what check_sharding throws; invalid_argument for a spec longer than the rank and for
// an extent that its axes do not divide (naming both), for parts outside the array or of another
// rank; unimplemented for an axis of type kManual and more than one device, which places nothing;
// failed_precondition for an UnknownSharding.
std::vector<DeviceBox> device_boxes(const Sharding& sharding, std::span<const std::int64_t> shape);
// Over how many devices. Throws as check_sharding; failed_precondition for an UnknownSharding.
std::size_t device_count(const Sharding& sharding);
// The shape of every device's box. Throws as device_boxes; failed_precondition if they are not all
// of one shape.
Shape shard_shape(const Sharding& sharding, std::span<const std::int64_t> shape);
// How many devices hold each box. Throws as device_boxes; failed_precondition if they are not
// equally many.
std::int64_t replica_count(const Sharding& sharding, std::span<const std::int64_t> shape);
// Whether every device holds all of the array. Throws as device_boxes.
bool is_fully_replicated(const Sharding& sharding, std::span<const std::int64_t> shape);

// ---- arrays in parts ----

// Host memory that holds a shard; the view may have any strides. `owner` keeps it alive, or is null
// if the caller does.
struct HostMemory {
  ArrayView view;
  std::shared_ptr<const void> owner;
};
// Copies the elements of `part`, in the shard's own coordinates, to `out` (host memory, of part's
// shape, any strides). Called from several threads at once for different parts; a source that
// cannot bear that takes a lock. Whatever it throws reaches the caller of the copy.
using ShardCopy = std::function<void(const Box& part, const MutableArrayView& out)>;

// One device's part of an array.
struct ArrayShard {
  std::int64_t device_id = 0;
  Box box;  // in the array's coordinates
  // which of the copies of this box it is
  std::int64_t replica = 0;
  // monostate: a description without values
  std::variant<std::monostate, HostMemory, ShardCopy> source = {};
};

// An array whose parts lie on devices, of which this process holds some. As a leaf of a Tree it is
// CustomLeaf::of(ShardedArray), got back with tree.custom<ShardedArray>(). A typed PRNG key is its
// key data: uint32 with the key's own dimensions at the end (as are `sharding` and boxes), and the
// name of its implementation.
struct ShardedArray {
  Shape shape;  // of the whole array
  DType dtype = DType::kFloat32;
  Sharding sharding;
  // "threefry2x32", "rbg", "unsafe_rbg"; "": an ordinary array
  std::string random_key_impl = {};
  std::vector<ArrayShard> shards = {};  // of this process's devices

  // A host array as if it were spread over devices: every shard is a view into it, no bytes move.
  // With `devices`, only theirs, as a process that has these would hold it. Throws as device_boxes;
  // invalid_argument for kOpaque.
  static ShardedArray from_array(const Array& array, Sharding sharding);
  static ShardedArray from_array(const Array& array, Sharding sharding,
                                 std::span<const std::int64_t> devices);
};

// Copies the elements of `box` (in the array's coordinates) to `out`, which has its shape and the
// array's dtype, from whichever shards hold them. Throws out_of_range for a box outside the array;
// failed_precondition, naming what is missing, if this process's shards do not hold all of it.
void copy_box(const ShardedArray& array, const Box& box, const MutableArrayView& out);
// All of the array in host memory. Throws as copy_box.
Array gather(const ShardedArray& array);

// ---- the text in Orbax's `_sharding` ----

// Byte for byte what Orbax writes; nullopt for an ExplicitSharding, which it does not write. Throws
// as check_sharding.
std::optional<std::string> sharding_json(const Sharding& sharding);
// The reverse. Texts of older versions lack axis types and device ids. Types that Cairn does not
// know become UnknownSharding; throws data_loss, naming the member, for what is no sharding.
Sharding parse_sharding(std::string_view json);

// For people: "NamedSharding(x=4,y=2; P('x', None))", "SingleDeviceSharding(cpu:0)".
std::string sharding_text(const Sharding& sharding);

// ---- saving: which process writes what ----

struct PieceOptions {
  // Which replica of each shard is written where one writes it whole; nullopt: the first one this
  // process holds (each process saves for itself), which excludes use_replica_parallel.
  std::optional<std::int64_t> replica_id = 0;
  // replicas write parts of their shard, where a dimension can be divided by their number
  bool use_replica_parallel = true;
  std::int64_t min_slice_bytes = 0;          // parts smaller than this are not worth it
  std::optional<std::int64_t> max_replicas;  // no more than so many replicas share a shard
};

// How an array is cut for storage. `write_shape` tiles the array; it is the same in every process.
struct WritePlan {
  Shape write_shape;
  // for each of the array's shards what it writes, in the array's coordinates
  std::vector<std::optional<Box>> pieces;
};
// Exactly Orbax's choice. The shards need no source. Throws as device_boxes; invalid_argument for a
// replica_id of nullopt with use_replica_parallel, for shards that are not what the sharding says,
// and for parts that tile no grid.
WritePlan plan_pieces(const ShardedArray& array, const PieceOptions& options = {});

// ---- restoring: choosing a sharding ----

// Checked as JAX's constructor checks it (check_sharding).
NamedSharding named_sharding(Mesh mesh, PartitionSpec spec);

// The sharding of the key data of an array of PRNG keys of this sharding, as JAX makes it:
// `key_rank` dimensions more, which are not split (a sharding on one device says nothing of them).
Sharding key_data_sharding(const Sharding& sharding, std::size_t key_rank = 1);

// A device that is there, and how JAX prints it.
struct Device {
  std::int64_t id = 0;
  std::string text;
};
// The sharding on devices that are there: with ids where none are recorded (all devices, in the
// order given), and axis types likewise (kAuto). Else the error that says why it cannot be used:
// devices that are absent, another number of them, a type that is not known.
Result<Sharding> usable_sharding(const Sharding& sharding, std::span<const Device> available);

}  // namespace cairn
