// replicas.h -- the replicas along an axis of a mesh, and which processes have devices in them. One
// replica, the primary, is read; the routes say which process then sends which box to which others.
#pragma once

#include <cairn/orbax/sharding.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::handlers {

// The axis of the replicas, and the position of the primary on it. Negative numbers count from the
// end.
struct ReplicaChoice {
  std::int64_t axis = 0;
  std::int64_t primary = 0;
};

// A mesh seen as replicas along one of its axes.
class Replicas {
 public:
  // Throws invalid_argument for a malformed mesh, for one with fewer than two axes, and if the axis
  // or the replica does not exist.
  Replicas(const Mesh& mesh, const ReplicaChoice& choice);

  // The devices of the whole mesh.
  [[nodiscard]] std::span<const std::int64_t> devices() const { return mesh_.device_ids.span(); }
  // Whether another mesh has the same devices in the same places, and the same axis names.
  [[nodiscard]] bool is_same(const Mesh& mesh) const;
  // Throws invalid_argument for a spec that splits an array along the axis: all replicas hold the
  // same.
  void check_spec(const PartitionSpec& spec) const;
  // The spec of the single replica's sharding. Throws invalid_argument unless its devices belong to
  // one replica and each has the same part of an array as with this spec on the whole mesh.
  [[nodiscard]] PartitionSpec spec_of(const NamedSharding& single_replica) const;

  // Sets the owners; `devices` has the devices of each process. Throws invalid_argument for devices
  // that belong to no process or to two, and if no device is outside the primary replica.
  void set_owners(std::span<const std::vector<std::int64_t>> devices);

  // Whether a process has devices in the primary replica. Set the owners first.
  [[nodiscard]] bool reads(std::size_t process) const;

  // The path of a box: from a process that reads it to the processes that need it and do not read
  // it, in ascending order.
  struct Route {
    std::size_t box = 0;
    std::size_t from = 0;
    std::vector<std::size_t> to;
  };
  // The routes of all boxes; `box_of_device` has the box of each device of the mesh. The processes
  // that read a box take turns as senders.
  [[nodiscard]] std::vector<Route> routes(std::span<const std::size_t> box_of_device) const;
  // The boxes that a process reads, in ascending order: those of its devices in the primary
  // replica.
  [[nodiscard]] std::vector<std::size_t> read_by(std::size_t process,
                                                 std::span<const std::size_t> box_of_device) const;

 private:
  [[nodiscard]] std::int64_t replica_of(std::size_t device) const;
  [[nodiscard]] bool is_primary(std::size_t device) const { return replica_of(device) == primary_; }

  Mesh mesh_;  // has device ids
  std::size_t axis_ = 0;
  std::int64_t primary_ = 0;
  std::vector<std::size_t> owner_;  // for each device of the mesh, its process
};

// Groups consecutive arrays, [first, last), to broadcast together. A group takes at most `limit`
// bytes on a device; an array that needs more forms a group of its own.
std::vector<std::pair<std::size_t, std::size_t>> broadcast_groups(
    std::span<const std::uint64_t> bytes_per_device, std::int64_t limit);
// The memory that a host has for broadcasting these arrays. Throws invalid_argument for a factor
// above 1 and for NaN.
std::int64_t default_broadcast_limit(std::span<const std::uint64_t> bytes_per_device,
                                     double scaling_factor);

}  // namespace cairn::inline v0::handlers
