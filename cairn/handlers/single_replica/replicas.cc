// replicas.cc -- assigns devices and processes to the replicas along an axis.
#include <cairn/handlers/single_replica/replicas.h>

#include <cairn/base/errors.h>
#include <cairn/error.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <unordered_map>

namespace cairn::inline v0::handlers {
namespace {

constexpr double kCopies = 3;  // of the data, which Orbax holds during a broadcast

std::size_t counted(std::int64_t index, std::size_t size, const std::string& what) {
  const auto n = static_cast<std::int64_t>(size);
  if (index < -n || index >= n)
    invalid_argument(what + " " + std::to_string(index) + ": there are " + std::to_string(n));
  return static_cast<std::size_t>(index < 0 ? index + n : index);
}

Mesh with_ids(Mesh mesh) {
  check_sharding({mesh, {}});
  if (!mesh.device_ids.empty()) return mesh;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(element_count(mesh.shape)));
  std::iota(ids.begin(), ids.end(), 0);
  mesh.device_ids = std::move(ids);
  return mesh;
}

// For each device, which of the parts it has that `axes` split a dimension into.
std::vector<std::int64_t> parts_of(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::vector<std::int64_t> parts(mesh.device_ids.size(), 0);
  for (const std::string& name : axes) {
    const auto axis = static_cast<std::size_t>(
        std::find(mesh.axis_names.begin(), mesh.axis_names.end(), name) - mesh.axis_names.begin());
    const std::int64_t inner = element_count(std::span(mesh.shape).subspan(axis + 1));
    for (std::size_t i = 0; i < parts.size(); ++i)
      parts[i] =
          parts[i] * mesh.shape[axis] + static_cast<std::int64_t>(i) / inner % mesh.shape[axis];
  }
  return parts;
}

std::int64_t part_count(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::int64_t count = 1;
  for (std::size_t a = 0; a < mesh.shape.size(); ++a)
    if (std::find(axes.begin(), axes.end(), mesh.axis_names[a]) != axes.end())
      count *= mesh.shape[a];
  return count;
}

}  // namespace

Replicas::Replicas(const Mesh& mesh, const ReplicaChoice& choice) : mesh_(with_ids(mesh)) {
  if (mesh_.shape.size() < 2)
    invalid_argument("the mesh " + shape_text(mesh_.shape) +
                     " has no replicas: it needs at least two axes, one of them for the replicas "
                     "(an axis may have size 1)");
  axis_ = counted(choice.axis, mesh_.shape.size(), "the mesh has no axis with replica_axis_index");
  primary_ = static_cast<std::int64_t>(
      counted(choice.primary, static_cast<std::size_t>(mesh_.shape[axis_]),
              "axis '" + mesh_.axis_names[axis_] + "' has no replica with primary_replica_id"));
}

bool Replicas::is_same(const Mesh& mesh) const {
  return mesh.shape == mesh_.shape && mesh.axis_names == mesh_.axis_names &&
         with_ids(mesh).device_ids == mesh_.device_ids;
}

void Replicas::check_spec(const PartitionSpec& spec) const {
  const std::string& name = mesh_.axis_names[axis_];
  for (const auto& entry : spec)
    if (std::find(entry.begin(), entry.end(), name) != entry.end())
      invalid_argument("its spec splits it along '" + name +
                       "', the axis of the replicas, which must hold identical data");
  check_sharding({mesh_, spec});
}

PartitionSpec Replicas::spec_of(const NamedSharding& single_replica) const {
  const auto wrong = [](const std::string& why) {
    invalid_argument("single_replica_sharding " + why + "; it can be left out");
  };
  const Mesh small = with_ids(single_replica.mesh);
  check_sharding({small, single_replica.spec});
  check_spec(single_replica.spec);
  std::unordered_map<std::int64_t, std::size_t> place;
  for (std::size_t i = 0; i < mesh_.device_ids.size(); ++i) place.emplace(mesh_.device_ids[i], i);
  std::set<std::int64_t> replicas;
  for (const std::int64_t id : small.device_ids) {
    if (!place.contains(id))
      wrong("has device " + std::to_string(id) + ", which is not in the mesh");
    replicas.insert(replica_of(place[id]));
  }
  if (replicas.size() > 1) wrong("has devices of several replicas");
  for (const auto& entry : single_replica.spec) {
    if (part_count(small, entry) != part_count(mesh_, entry))
      wrong("splits arrays differently from its spec on the whole mesh");
    const std::vector<std::int64_t> there = parts_of(small, entry), here = parts_of(mesh_, entry);
    for (std::size_t i = 0; i < there.size(); ++i)
      if (there[i] != here[place[small.device_ids[i]]])
        wrong("gives device " + std::to_string(small.device_ids[i]) +
              " a different part of the array than its spec on the whole mesh");
  }
  return single_replica.spec;
}

void Replicas::set_owners(std::span<const std::vector<std::int64_t>> devices) {
  std::unordered_map<std::int64_t, std::size_t> owners;
  for (std::size_t p = 0; p < devices.size(); ++p)
    for (const std::int64_t id : devices[p])
      if (const auto [it, is_new] = owners.emplace(id, p); !is_new)
        invalid_argument("device " + std::to_string(id) + " belongs to process " +
                         std::to_string(it->second) + " and to process " + std::to_string(p));
  std::size_t in_primary = 0;
  owner_.clear();
  for (std::size_t i = 0; i < mesh_.device_ids.size(); ++i) {
    const auto owner = owners.find(mesh_.device_ids[i]);
    if (owner == owners.end())
      invalid_argument("device " + std::to_string(mesh_.device_ids[i]) +
                       (is_primary(i) ? ", in the primary replica," : "") +
                       " of the mesh belongs to no process: it is not in the local_devices of any");
    owner_.push_back(owner->second);
    in_primary += is_primary(i) ? 1 : 0;
  }
  if (in_primary == owners.size())
    invalid_argument(
        "all devices are in the primary replica: there is no other replica to broadcast to");
}

std::int64_t Replicas::replica_of(std::size_t device) const {
  const std::int64_t inner = element_count(std::span(mesh_.shape).subspan(axis_ + 1));
  return static_cast<std::int64_t>(device) / inner % mesh_.shape[axis_];
}

bool Replicas::reads(std::size_t process) const {
  for (std::size_t i = 0; i < owner_.size(); ++i)
    if (owner_[i] == process && is_primary(i)) return true;
  return false;
}

std::vector<std::size_t> Replicas::read_by(std::size_t process,
                                           std::span<const std::size_t> box_of_device) const {
  std::set<std::size_t> boxes;
  for (std::size_t i = 0; i < owner_.size(); ++i)
    if (owner_[i] == process && is_primary(i)) boxes.insert(box_of_device[i]);
  return {boxes.begin(), boxes.end()};
}

std::vector<Replicas::Route> Replicas::routes(std::span<const std::size_t> box_of_device) const {
  struct Ends {
    std::set<std::size_t> readers;
    std::set<std::size_t> holders;
  };
  std::vector<Ends> ends;
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (box_of_device[i] >= ends.size()) ends.resize(box_of_device[i] + 1);
    Ends& of_box = ends[box_of_device[i]];
    of_box.holders.insert(owner_[i]);
    if (is_primary(i)) of_box.readers.insert(owner_[i]);
  }
  std::vector<Route> routes;
  for (std::size_t box = 0; box < ends.size(); ++box) {
    const auto& [readers, holders] = ends[box];
    Route route{
        box, *std::next(readers.begin(), static_cast<std::ptrdiff_t>(box % readers.size())), {}};
    std::set_difference(holders.begin(), holders.end(), readers.begin(), readers.end(),
                        std::back_inserter(route.to));
    if (!route.to.empty()) routes.push_back(std::move(route));
  }
  return routes;
}

std::vector<std::pair<std::size_t, std::size_t>> broadcast_groups(
    std::span<const std::uint64_t> bytes_per_device, std::int64_t limit) {
  std::vector<std::pair<std::size_t, std::size_t>> groups;
  const auto fits = [&](std::uint64_t bytes) {
    return limit >= 0 && bytes <= static_cast<std::uint64_t>(limit);
  };
  for (std::size_t first = 0; first < bytes_per_device.size();) {
    std::size_t last = first + 1;
    for (std::uint64_t bytes = bytes_per_device[first];
         last < bytes_per_device.size() && fits(bytes); ++last) {
      bytes += bytes_per_device[last];
      if (!fits(bytes)) break;
    }
    groups.emplace_back(first, last);
    first = last;
  }
  return groups;
}

std::int64_t default_broadcast_limit(std::span<const std::uint64_t> bytes_per_device,
                                     double scaling_factor) {
  if (!(scaling_factor <= 1))
    invalid_argument("broadcast_memory_scaling_factor is " + std::to_string(scaling_factor) +
                     "; it must be a number of at most 1");
  const double host =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double used = std::accumulate(
      bytes_per_device.begin(), bytes_per_device.end(), 0.0,
      [](double sum, std::uint64_t bytes) { return sum + static_cast<double>(bytes); });
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(
      std::clamp((host - used) * scaling_factor / kCopies, -kMost, kMost));
}

}  // namespace cairn::inline v0::handlers
