// mesh.cc -- makes and checks meshes.
#include <cairn/distributed/sharding/mesh.h>

#include <cairn/base/errors.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

namespace cairn::inline v0 {
namespace distributed {
namespace {

constexpr std::size_t kMaxAxes = 64;  // axes of a mesh, which is a NumPy array
// files state this count; the largest machines have a tenth of the limit
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20U;

void check_axis_names(const Mesh& mesh) {
  if (mesh.axis_names.size() != mesh.shape.size())
    invalid_argument("mesh " + shape_text(mesh.shape) + " has " +
                     std::to_string(mesh.axis_names.size()) +
                     " axis names; one is needed for each axis");
  if (mesh.shape.size() > kMaxAxes)
    invalid_argument("the mesh has " + std::to_string(mesh.shape.size()) + " axes, at most " +
                     std::to_string(kMaxAxes) + " are allowed");
  for (auto name = mesh.axis_names.begin(); name != mesh.axis_names.end(); ++name) {
    if (name->empty())
      invalid_argument("axis " + std::to_string(name - mesh.axis_names.begin()) + " of mesh " +
                       shape_text(mesh.shape) + " has an empty name");
    if (std::find(mesh.axis_names.begin(), name, *name) != name)
      invalid_argument("mesh axis '" + *name + "' appears twice");
  }
}

std::int64_t count_devices(const Mesh& mesh) {
  std::int64_t count = 1;
  for (std::size_t a = 0; a < mesh.shape.size(); ++a) {
    if (mesh.shape[a] < 1)
      invalid_argument(axis_text(mesh, a) + ": an axis has at least one device");
    if (mesh.shape[a] > kMaxDevices / count)
      invalid_argument("mesh " + shape_text(mesh.shape) + " has more than " +
                       std::to_string(kMaxDevices) + " devices");
    count *= mesh.shape[a];
  }
  return count;
}

}  // namespace

std::string axis_text(const Mesh& mesh, std::size_t axis) {
  return "mesh axis '" + mesh.axis_names[axis] + "' (" + std::to_string(mesh.shape[axis]) +
         " devices)";
}

void check_unique_ids(std::span<const std::int64_t> ids) {
  // The common case is cheap: most meshes list their devices in ascending order.
  if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end()) return;
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    invalid_argument("device " + std::to_string(*twice) + " appears twice in the sharding");
}

std::int64_t check_mesh(const Mesh& mesh) {
  check_axis_names(mesh);
  const std::int64_t count = count_devices(mesh);
  if (!mesh.axis_types.empty() && mesh.axis_types.size() != mesh.shape.size())
    invalid_argument("mesh " + shape_text(mesh.shape) + " has " +
                     std::to_string(mesh.axis_types.size()) +
                     " axis types; one is needed for each axis, or none");
  if (mesh.device_ids.empty()) return count;
  if (static_cast<std::int64_t>(mesh.device_ids.size()) != count)
    invalid_argument("mesh " + shape_text(mesh.shape) + " has " +
                     std::to_string(mesh.device_ids.size()) + " device ids; " +
                     std::to_string(count) + " are needed");
  check_unique_ids(mesh.device_ids.span());
  return count;
}

}  // namespace distributed

DeviceIds::DeviceIds(std::vector<std::int64_t> ids)
    : ids_(std::make_shared<const std::vector<std::int64_t>>(std::move(ids))) {}

bool DeviceIds::operator==(const DeviceIds& other) const {
  return ids_ == other.ids_ || std::equal(begin(), end(), other.begin(), other.end());
}

Mesh make_mesh(Shape shape, std::vector<std::string> axis_names, std::int64_t first_device) {
  Mesh mesh{.shape = std::move(shape),
            .axis_names = std::move(axis_names),
            .axis_types = {},
            .device_ids = {}};
  std::vector<std::int64_t> ids(static_cast<std::size_t>(distributed::check_mesh(mesh)));
  std::iota(ids.begin(), ids.end(), first_device);
  mesh.axis_types.assign(mesh.shape.size(), AxisType::kAuto);
  mesh.device_ids = std::move(ids);
  return mesh;
}

}  // namespace cairn::inline v0
