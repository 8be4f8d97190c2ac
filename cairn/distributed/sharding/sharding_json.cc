// sharding_json.cc -- converts a sharding to and from the JSON that Orbax keeps in `_sharding`:
//
//   {"sharding_type": "NamedSharding", "shape": [2, 2], "axis_names": ["x", "y"],
//    "axis_types": ["AxisType.Auto", "AxisType.Auto"], "partition_spec": ["x", null],
//    "device_mesh": {"mesh": [[{"id": 0}, {"id": 1}], [{"id": 2}, {"id": 3}]]}}
//   {"sharding_type": "SingleDeviceSharding", "device_str": "cpu:0"}
//
// Older writers omit axis_types and device_mesh.
#include <cairn/base/json/json.h>
#include <cairn/orbax/sharding.h>

#include <algorithm>
#include <array>

namespace cairn::inline v0 {
namespace {

constexpr std::array<std::string_view, 3> kAxisTypes = {"AxisType.Auto", "AxisType.Explicit",
                                                        "AxisType.Manual"};

[[noreturn]] void damaged(const std::string& message) {
  throw Error(Code::kDataLoss, "sharding: " + message);
}

// ---- writing ----

Json strings_json(const std::vector<std::string>& texts) {
  return JsonArray(texts.begin(), texts.end());
}

Json spec_json(const PartitionSpec& spec) {
  JsonArray entries;
  for (const auto& axes : spec) {
    if (axes.empty())
      entries.emplace_back(nullptr);
    else if (axes.size() == 1)
      entries.emplace_back(axes[0]);
    else
      entries.push_back(strings_json(axes));
  }
  return entries;
}

// The devices of the axes from `axis` on, as nested lists; `next` is the index of the next device.
Json devices_json(const Mesh& mesh, std::size_t axis, std::size_t& next) {
  if (axis == mesh.shape.size()) return JsonObject{{"id", mesh.device_ids[next++]}};
  JsonArray devices;
  for (std::int64_t i = 0; i < mesh.shape[axis]; ++i)
    devices.push_back(devices_json(mesh, axis + 1, next));
  return devices;
}

Json named_json(const NamedSharding& sharding) {
  check_sharding(sharding);
  const Mesh& mesh = sharding.mesh;
  JsonObject json{{"sharding_type", "NamedSharding"},
                  {"shape", JsonArray(mesh.shape.begin(), mesh.shape.end())},
                  {"axis_names", strings_json(mesh.axis_names)}};
  if (!mesh.axis_types.empty() || mesh.shape.empty()) {
    JsonArray types;
    for (const AxisType type : mesh.axis_types)
      types.emplace_back(kAxisTypes.at(static_cast<std::size_t>(type)));
    json.emplace_back("axis_types", std::move(types));
  }
  json.emplace_back("partition_spec", spec_json(sharding.spec));
  if (!mesh.device_ids.empty()) {
    std::size_t next = 0;
    json.emplace_back("device_mesh", JsonObject{{"mesh", devices_json(mesh, 0, next)}});
  }
  return json;
}

// ---- reading ----

// Returns the member; null if it is missing, null or empty. Readers treat all three as absent.
const Json* optional_member(const Json& json, std::string_view name) {
  const Json* member = json.find(name);
  if (member == nullptr || member->is_null()) return nullptr;
  if (member->as_array() != nullptr && member->as_array()->empty()) return nullptr;
  if (member->as_object() != nullptr && member->as_object()->empty()) return nullptr;
  return member;
}

const JsonArray& list_member(const Json& json, std::string_view name) {
  const Json* member = json.find(name);
  if (member == nullptr) damaged("member '" + std::string(name) + "' is missing");
  if (member->as_array() == nullptr)
    damaged("'" + std::string(name) + "' is " + std::string(member->type_text()) +
            ", expected a list");
  return *member->as_array();
}

const std::string& text_of(const Json& json, std::string_view where) {
  if (json.as_string() == nullptr)
    damaged("'" + std::string(where) + "' holds " + std::string(json.type_text()) +
            ", expected a string");
  return *json.as_string();
}

std::int64_t integer_of(const Json& json, std::string_view where) {
  const auto number = json.as_int64();
  if (!number)
    damaged("'" + std::string(where) + "' holds " + std::string(json.type_text()) +
            ", expected an integer");
  return *number;
}

PartitionSpec parse_spec(const JsonArray& entries) {
  PartitionSpec spec;
  for (const Json& entry : entries) {
    std::vector<std::string>& axes = spec.emplace_back();
    if (entry.as_array() != nullptr) {
      for (const Json& axis : *entry.as_array()) axes.push_back(text_of(axis, "partition_spec"));
    } else if (!entry.is_null()) {
      axes.push_back(text_of(entry, "partition_spec"));
    }
  }
  return spec;
}

// The recursion is at most as deep as the mesh's rank. JSON's nesting limit bounds how deep a file
// can make it.
void parse_devices(const Json& json, const Shape& shape, std::size_t axis,
                   std::vector<std::int64_t>& ids) {
  if (axis == shape.size()) {
    const Json* id = json.find("id");
    if (id == nullptr)
      damaged("'device_mesh' holds " + std::string(json.type_text()) +
              " where a device with an 'id' is expected");
    return ids.push_back(integer_of(*id, "device_mesh"));
  }
  const JsonArray* list = json.as_array();
  if (list == nullptr || static_cast<std::int64_t>(list->size()) != shape[axis])
    damaged("'device_mesh' is not nested as the mesh " + shape_text(shape) + " is: axis " +
            std::to_string(axis) + " has " +
            (list == nullptr ? std::string(json.type_text())
                             : std::to_string(list->size()) + " entries"));
  for (const Json& entry : *list) parse_devices(entry, shape, axis + 1, ids);
}

// Returns nullopt if an axis type is unknown, as one from a newer JAX is.
std::optional<std::vector<AxisType>> parse_axis_types(const Json& json) {
  std::vector<AxisType> types;
  if (optional_member(json, "axis_types") == nullptr) return types;
  for (const Json& entry : list_member(json, "axis_types")) {
    const auto* known =
        std::find(kAxisTypes.begin(), kAxisTypes.end(), text_of(entry, "axis_types"));
    if (known == kAxisTypes.end()) return std::nullopt;
    types.push_back(static_cast<AxisType>(known - kAxisTypes.begin()));
  }
  return types;
}

Sharding parse_named(const Json& json, std::string_view text) {
  NamedSharding sharding;
  Mesh& mesh = sharding.mesh;
  for (const Json& extent : list_member(json, "shape"))
    mesh.shape.push_back(integer_of(extent, "shape"));
  for (const Json& name : list_member(json, "axis_names")) {
    // JAX accepts names of any type.
    if (name.is_number()) return UnknownSharding{std::string(text)};
    mesh.axis_names.push_back(text_of(name, "axis_names"));
  }
  auto types = parse_axis_types(json);
  if (!types) return UnknownSharding{std::string(text)};
  mesh.axis_types = std::move(*types);
  sharding.spec = parse_spec(list_member(json, "partition_spec"));
  if (const Json* devices = optional_member(json, "device_mesh")) {
    const Json* nested = devices->find("mesh");
    if (nested == nullptr) damaged("'device_mesh' has no member 'mesh'");
    std::vector<std::int64_t> ids;
    parse_devices(*nested, mesh.shape, 0, ids);
    mesh.device_ids = std::move(ids);
  }
  try {
    check_sharding(sharding);
  } catch (const Error& e) {
    damaged(e.message());
  }
  return sharding;
}

}  // namespace

std::optional<std::string> sharding_json(const Sharding& sharding) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding))
    return to_text(named_json(*named), JsonStyle::kPython);
  if (const auto* single = std::get_if<SingleDeviceSharding>(&sharding))
    return to_text(
        JsonObject{{"sharding_type", "SingleDeviceSharding"}, {"device_str", single->device}},
        JsonStyle::kPython);
  if (const auto* unknown = std::get_if<UnknownSharding>(&sharding)) return unknown->json;
  return std::nullopt;
}

Sharding parse_sharding(std::string_view text) {
  const Json json = with_context([] { return "sharding"; }, [&] { return parse_json(text); });
  const Json* type = json.find("sharding_type");
  if (type == nullptr) damaged("member 'sharding_type' is missing");
  const std::string& name = text_of(*type, "sharding_type");
  if (name == "NamedSharding") return parse_named(json, text);
  if (name != "SingleDeviceSharding") return UnknownSharding{std::string(text)};
  const Json* device = json.find("device_str");
  if (device == nullptr) damaged("member 'device_str' is missing");
  return SingleDeviceSharding{text_of(*device, "device_str")};
}

}  // namespace cairn::inline v0
