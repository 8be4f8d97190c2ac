// named_placement.cc -- treats the position of a device along each mesh axis as a digit. Axes that
// split the array give the position of the device's box; the other axes give its replica number.
#include <cairn/distributed/sharding/named_placement.h>

#include <cairn/base/errors.h>
#include <cairn/distributed/sharding/mesh.h>

#include <algorithm>
#include <cstddef>

namespace cairn::inline v0 {
namespace distributed {
namespace {

// How many boxes of dimension `dim` one step along an axis passes; weight 0: the axis splits
// nothing.
struct AxisUse {
  std::size_t dim = 0;
  std::int64_t weight = 0;
};

// Returns what each axis does. Throws invalid_argument unless the spec names only axes of the mesh,
// each at most once.
std::vector<AxisUse> check_spec(const NamedSharding& sharding) {
  const std::vector<std::string>& axes = sharding.mesh.axis_names;
  std::vector<AxisUse> uses(axes.size());
  for (std::size_t d = 0; d < sharding.spec.size(); ++d) {
    const std::vector<std::string>& names = sharding.spec[d];
    std::int64_t weight = 1;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      const auto axis =
          static_cast<std::size_t>(std::find(axes.begin(), axes.end(), *name) - axes.begin());
      if (axis == axes.size())
        invalid_argument("the partition spec splits dimension " + std::to_string(d) + " by '" +
                         *name + "', which is not an axis of the mesh");
      if (uses[axis].weight != 0)
        invalid_argument("the partition spec names mesh axis '" + *name +
                         "' twice; an axis splits at most one dimension");
      uses[axis] = {.dim = d, .weight = weight};
      weight *= sharding.mesh.shape[axis];
    }
  }
  return uses;
}

void check_placeable(const Mesh& mesh) {
  for (std::size_t a = 0; a < mesh.axis_types.size(); ++a)
    if (mesh.axis_types[a] == AxisType::kManual && mesh.shape[a] > 1)
      throw Error(Code::kUnimplemented,
                  axis_text(mesh, a) +
                      " is Manual: such a sharding does not define which device holds which part");
}

// Returns the shape of every device's box.
Shape divided(const NamedSharding& sharding, const std::vector<AxisUse>& uses,
              std::span<const std::int64_t> shape) {
  // JAX makes such arrays where nothing checks the spec: an empty entry splits nothing.
  const auto beyond = static_cast<std::ptrdiff_t>(std::min(shape.size(), sharding.spec.size()));
  if (std::any_of(sharding.spec.begin() + beyond, sharding.spec.end(),
                  [](const auto& names) { return !names.empty(); }))
    invalid_argument("the partition spec has " + std::to_string(sharding.spec.size()) +
                     " entries, but the array " + shape_text(shape) + " has rank " +
                     std::to_string(shape.size()));
  Shape boxes(shape.size(), 1);
  for (std::size_t a = 0; a < uses.size(); ++a)
    if (uses[a].weight != 0) boxes[uses[a].dim] *= sharding.mesh.shape[a];
  Shape part(shape.begin(), shape.end());
  for (std::size_t d = 0; d < part.size(); ++d) {
    if (shape[d] % boxes[d] != 0) {
      std::string axes;
      for (const std::string& name : sharding.spec[d])
        axes += (axes.empty() ? "'" : ", '") + name + "'";
      invalid_argument("dimension " + std::to_string(d) + " of " + shape_text(shape) + " has " +
                       std::to_string(shape[d]) + " elements, which mesh axes " + axes +
                       " cannot split into " + std::to_string(boxes[d]) + " equal parts");
    }
    part[d] /= boxes[d];
  }
  return part;
}

}  // namespace

NamedPlacement::NamedPlacement(const NamedSharding& sharding, std::span<const std::int64_t> shape)
    : mesh_(sharding.mesh), devices_(static_cast<std::size_t>(check_mesh(mesh_))) {
  const std::vector<AxisUse> uses = check_spec(sharding);
  check_placeable(mesh_);
  part_ = divided(sharding, uses, shape);
  axes_.reserve(uses.size());
  for (std::size_t a = 0; a < uses.size(); ++a) {
    // All empty parts of a dimension count as replicas of one part, as in JAX.
    const bool replicates = uses[a].weight == 0 || part_[uses[a].dim] == 0;
    axes_.push_back({.devices = mesh_.shape[a],
                     .dim = uses[a].dim,
                     .weight = uses[a].weight,
                     .replicates = replicates});
    if (replicates) replicas_ *= mesh_.shape[a];
  }
}

DeviceBox NamedPlacement::at(std::size_t position) const {
  DeviceBox out{.device_id = mesh_.device_ids.empty() ? static_cast<std::int64_t>(position)
                                                      : mesh_.device_ids[position],
                .box = {std::vector<std::int64_t>(part_.size(), 0), part_}};
  auto rest = static_cast<std::int64_t>(position);
  std::int64_t replica_weight = 1;
  for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
    const std::int64_t step = rest % axis->devices;
    rest /= axis->devices;
    if (axis->weight != 0) out.box.origin[axis->dim] += step * axis->weight * part_[axis->dim];
    if (!axis->replicates) continue;
    out.replica += step * replica_weight;
    replica_weight *= axis->devices;
  }
  return out;
}

std::optional<DeviceBox> NamedPlacement::of(std::int64_t device_id) const {
  const auto& ids = mesh_.device_ids;
  const auto numbered = static_cast<std::size_t>(device_id);  // the position in a mesh without ids
  const auto position =
      ids.empty()
          ? numbered
          : static_cast<std::size_t>(std::find(ids.begin(), ids.end(), device_id) - ids.begin());
  if (device_id < 0 && ids.empty()) return std::nullopt;
  if (position >= devices_) return std::nullopt;
  return at(position);
}

}  // namespace distributed

void check_sharding(const NamedSharding& sharding) {
  distributed::check_mesh(sharding.mesh);
  distributed::check_spec(sharding);
}

}  // namespace cairn::inline v0
