// render_sharding.cc -- shows which devices hold which part of an array, as lines below its name.

#include <cairn/tools/inspect/render_sharding.h>

#include <cairn/array/box.h>
#include <cairn/inspect.h>
#include <cairn/orbax/sharding.h>

#include <map>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMaxParts = 16;    // lines for one array
constexpr std::size_t kMaxDevices = 16;  // runs of devices in one line

// "0-3, 2048": in the order of the mesh; consecutive numbers form a run.
std::string devices_text(const std::vector<std::int64_t>& ids) {
  std::string text;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    if (runs++ == kMaxDevices) return text + ", ... " + std::to_string(ids.size() - i) + " more";
    text += (text.empty() ? "" : ", ") + std::to_string(ids[i]);
    if (end - i > 1) text += (end - i > 2 ? "-" : ", ") + std::to_string(ids[end - 1]);
    i = end;
  }
  return text;
}

// One line for each part, in the order in which the devices first hold it.
std::vector<std::string> part_lines(const std::vector<DeviceBox>& boxes) {
  // maps origin and extents to the position in `parts`
  std::map<std::vector<std::int64_t>, std::size_t> index;
  std::vector<std::pair<const Box*, std::vector<std::int64_t>>> parts;
  for (const DeviceBox& held : boxes) {
    std::vector<std::int64_t> key = held.box.origin;
    key.insert(key.end(), held.box.shape.begin(), held.box.shape.end());
    const auto [entry, added] = index.try_emplace(std::move(key), parts.size());
    if (added) parts.emplace_back(&held.box, std::vector<std::int64_t>());
    parts[entry->second].second.push_back(held.device_id);
  }
  std::vector<std::string> lines;
  for (const auto& [box, devices] : parts) {
    if (lines.size() == kMaxParts) {
      lines.push_back("... " + std::to_string(parts.size() - kMaxParts) + " more parts");
      break;
    }
    lines.push_back(box_text(*box) + (devices.size() == 1 ? "  device " : "  devices ") +
                    devices_text(devices));
  }
  return lines;
}

}  // namespace

std::vector<std::string> sharding_lines(std::string_view json,
                                        std::span<const std::int64_t> shape) {
  std::vector<std::string> lines{sharding_text(json)};
  const auto boxes = try_call([&] { return device_boxes(parse_sharding(json), shape); });
  if (!boxes) {
    lines.push_back(printable_text("places nothing: " + boxes.error().message()));
    return lines;
  }
  for (std::string& line : part_lines(boxes.value())) lines.push_back(std::move(line));
  return lines;
}

}  // namespace cairn::inline v0
