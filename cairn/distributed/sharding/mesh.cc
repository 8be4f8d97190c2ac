// mesh.cc -- meshes made and checked.
#include <cairn/distributed/sharding/mesh.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace cairn {
namespace distributed {
namespace {

constexpr std::size_t kMaxAxes = 64;  // of a mesh: it is a NumPy array
// texts from files say how many; the largest machines have a tenth of that
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20U;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(Code::kInvalidArgument, message);
}

void check_axis_names(const Mesh& mesh) {
  if (mesh.axis_names.size() != mesh.shape.size())
    refuse("mesh " + shape_text(mesh.shape) + " has " + std::to_string(mesh.axis_names.size()) +
           " axis names; one is needed for each axis");
  if (mesh.shape.size() > kMaxAxes)
    refuse("a mesh of " + std::to_string(mesh.shape.size()) + " axes; at most " +
           std::to_string(kMaxAxes) + " are possible");
  for (auto name = mesh.axis_names.begin(); name != mesh.axis_names.end(); ++name) {
    if (name->empty())
      refuse("axis " + std::to_string(name - mesh.axis_names.begin()) + " of mesh " +
             shape_text(mesh.shape) + " has an empty name");
    if (std::find(mesh.axis_names.begin(), name, *name) != name)
      refuse("mesh axis '" + *name + "' is there twice");
  }
}

std::int64_t count_devices(const Mesh& mesh) {
  std::int64_t count = 1;
  for (std::size_t a = 0; a < mesh.shape.size(); ++a) {
    if (mesh.shape[a] < 1) refuse(axis_text(mesh, a) + ": an axis has at least one device");
    if (mesh.shape[a] > kMaxDevices / count)
      refuse("mesh " + shape_text(mesh.shape) + " has more than " + std::to_string(kMaxDevices) +
             " devices");
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
  // Most meshes have their devices in order.
  if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end()) return;
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    refuse("device " + std::to_string(*twice) + " is in the sharding twice");
}

std::int64_t check_mesh(const Mesh& mesh) {
  check_axis_names(mesh);
  const std::int64_t count = count_devices(mesh);
  if (!mesh.axis_types.empty() && mesh.axis_types.size() != mesh.shape.size())
    refuse("mesh " + shape_text(mesh.shape) + " has " + std::to_string(mesh.axis_types.size()) +
           " axis types; one is needed for each axis, or none");
  if (mesh.device_ids.empty()) return count;
  if (static_cast<std::int64_t>(mesh.device_ids.size()) != count)
    refuse("mesh " + shape_text(mesh.shape) + " has " + std::to_string(mesh.device_ids.size()) +
           " device ids; " + std::to_string(count) + " are needed");
  check_unique_ids(mesh.device_ids.span());
  return count;
}

}  // namespace distributed

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

}  // namespace cairn
