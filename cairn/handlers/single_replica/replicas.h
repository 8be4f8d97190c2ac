// replicas.h -- the replicas that lie along an axis of a mesh, whose processes' devices are in
// them, and who gives which box to whom when one of them, the primary, has read.
#pragma once

#include <cairn/sharding.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::handlers {

// Which axis, and which place on it. Negative numbers count from the end.
struct ReplicaChoice {
  std::int64_t axis = 0;
  std::int64_t primary = 0;
};

class Replicas {
 public:
  // Throws invalid_argument for a mesh that is not sound, of fewer than two axes, or without that
  // axis or replica.
  Replicas(const Mesh& mesh, const ReplicaChoice& choice);

  // Of the whole mesh.
  [[nodiscard]] std::span<const std::int64_t> devices() const { return mesh_.device_ids.span(); }
  // Whether another mesh has the same devices in the same places, under the same names of axes.
  [[nodiscard]] bool is_same(const Mesh& mesh) const;
  // Throws invalid_argument for a spec that splits an array along the axis: replicas hold the same.
  void check_spec(const PartitionSpec& spec) const;
  // The spec that the single replica's sharding has. Throws invalid_argument unless its devices are
  // of one replica, and each has the part of an array that it has with this spec on the whole mesh.
  [[nodiscard]] PartitionSpec spec_of(const NamedSharding& single_replica) const;

  // `devices`: of each process. Throws invalid_argument for devices that are nobody's or two
  // processes', and if there are none outside the primary replica.
  void set_owners(std::span<const std::vector<std::int64_t>> devices);

  // Once owners are set: whether a process has devices in the primary replica.
  [[nodiscard]] bool reads(std::size_t process) const;

  // A box of an array on its way: from a process that reads it to those which want it and do not,
  // in ascending order.
  struct Route {
    std::size_t box = 0;
    std::size_t from = 0;
    std::vector<std::size_t> to;
  };
  // `box_of_device`: which box each device of the mesh holds. Those who read a box take turns in
  // giving it.
  [[nodiscard]] std::vector<Route> routes(std::span<const std::size_t> box_of_device) const;
  // The boxes that a process reads: those of its devices in the primary replica, ascending.
  [[nodiscard]] std::vector<std::size_t> read_by(std::size_t process,
                                                 std::span<const std::size_t> box_of_device) const;

 private:
  [[nodiscard]] std::int64_t replica_of(std::size_t device) const;
  [[nodiscard]] bool is_primary(std::size_t device) const { return replica_of(device) == primary_; }

  Mesh mesh_;  // with device ids
  std::size_t axis_ = 0;
  std::int64_t primary_ = 0;
  std::vector<std::size_t> owner_;  // of each device of the mesh, the process
};

// Consecutive arrays, [first, last), that are broadcast together: as many as take at most `limit`
// bytes on a device, or one that alone takes more.
std::vector<std::pair<std::size_t, std::size_t>> broadcast_groups(
    std::span<const std::uint64_t> bytes_per_device, std::int64_t limit);
// What a host has for broadcasting such arrays. Throws invalid_argument for a factor above 1, or
// that is no number.
std::int64_t default_broadcast_limit(std::span<const std::uint64_t> bytes_per_device,
                                     double scaling_factor);

}  // namespace cairn::handlers
