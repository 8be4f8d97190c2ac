// target_sharding.cc -- the sharding of a restored array: makes shardings from parts, and checks
// whether one can be used with the available devices.
#include <cairn/orbax/sharding.h>

#include <algorithm>
#include <unordered_set>

namespace cairn::inline v0 {
namespace {

// JAX 0.10 renamed CPU devices from TFRT_CPU_n to cpu:n.
std::string modern_name(const std::string& device) {
  constexpr std::string_view kOld = "TFRT_CPU_";
  return device.starts_with(kOld) ? "cpu:" + device.substr(kOld.size()) : device;
}

std::string available_text(std::span<const Device> available) {
  std::string text;
  for (const Device& device : available) {
    if (text.size() > 200) return text + ", ...";
    text += (text.empty() ? "" : ", ") + device.text;
  }
  return text.empty() ? "none" : text;
}

Error unusable(const std::string& why, std::span<const Device> available) {
  return {Code::kFailedPrecondition, why + " (available: " + available_text(available) +
                                         "); restore to a sharding over available devices"};
}

Result<Sharding> usable_named(NamedSharding sharding, std::span<const Device> available) {
  if (const auto sound = try_call([&] { return check_sharding(sharding), true; }); !sound)
    return sound.error();
  if (sharding.mesh.axis_types.empty())
    sharding.mesh.axis_types.assign(sharding.mesh.shape.size(), AxisType::kAuto);
  if (sharding.mesh.device_ids.empty()) {
    std::uint64_t wanted = 1;  // at most 2^20: the mesh has been checked
    for (const std::int64_t n : sharding.mesh.shape) wanted *= static_cast<std::uint64_t>(n);
    if (wanted != available.size())
      return unusable("the array was saved on a mesh " + shape_text(sharding.mesh.shape) + " of " +
                          std::to_string(wanted) + " devices, available are " +
                          std::to_string(available.size()),
                      available);
    std::vector<std::int64_t> ids;
    for (const Device& device : available) ids.push_back(device.id);
    sharding.mesh.device_ids = std::move(ids);
    return Sharding(std::move(sharding));
  }
  std::unordered_set<std::int64_t> here;
  for (const Device& device : available) here.insert(device.id);
  for (const std::int64_t id : sharding.mesh.device_ids)
    if (!here.contains(id))
      return unusable(
          "the array was saved on device " + std::to_string(id) + ", which is not available",
          available);
  return Sharding(std::move(sharding));
}

}  // namespace

bool SingleDeviceSharding::operator==(const SingleDeviceSharding& other) const {
  return modern_name(device) == modern_name(other.device);
}

NamedSharding named_sharding(Mesh mesh, PartitionSpec spec) {
  NamedSharding sharding{.mesh = std::move(mesh), .spec = std::move(spec)};
  check_sharding(sharding);
  return sharding;
}

Sharding key_data_sharding(const Sharding& sharding, std::size_t key_rank) {
  Sharding data = sharding;
  auto* named = std::get_if<NamedSharding>(&data);
  const auto is_one = [](std::int64_t n) { return n == 1; };
  if (named == nullptr || std::all_of(named->mesh.shape.begin(), named->mesh.shape.end(), is_one))
    return data;
  named->spec.resize(named->spec.size() + key_rank);
  return data;
}

Result<Sharding> usable_sharding(const Sharding& sharding, std::span<const Device> available) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding))
    return usable_named(*named, available);
  if (const auto* single = std::get_if<SingleDeviceSharding>(&sharding)) {
    for (const Device& device : available)
      if (modern_name(device.text) == modern_name(single->device))
        return Sharding(SingleDeviceSharding{device.text});
    return unusable("the array was saved on device " + single->device + ", which is not available",
                    available);
  }
  if (const auto* unknown = std::get_if<UnknownSharding>(&sharding))
    return unusable("the array was saved with a sharding of unknown type: " + unknown->json,
                    available);
  return sharding;
}

}  // namespace cairn::inline v0
