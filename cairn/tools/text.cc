// text.cc -- stored names and shardings as text for people.
#include <cairn/tools.h>

#include <cairn/base/json.h>
#include <cairn/tools/utf8.h>

namespace cairn {

std::string printable(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    // C1 controls drive terminals too, and the bidirectional marks can make one name look like another.
    const bool control = c.value < 0x20 || (c.value >= 0x7f && c.value < 0xa0) || (c.value >= 0x202a && c.value <= 0x202e) ||
                         (c.value >= 0x2066 && c.value <= 0x2069);
    if (c.valid && !control) {
      out.append(text.substr(i, c.size));
    } else {
      for (const char b : text.substr(i, c.size)) {
        const auto byte = static_cast<unsigned char>(b);
        out.append("\\x").push_back(kHex[byte >> 4U]);
        out.push_back(kHex[byte & 15U]);
      }
    }
    i += c.size;
  }
  return out;
}

namespace {

// One entry of a partition spec: null, an axis name, or a list of them.
std::string spec_entry_text(const Json& entry) {
  if (const auto* name = entry.as_string()) return "'" + *name + "'";
  const auto* names = entry.as_array();
  if (names == nullptr) return "None";
  std::string out = "(";
  for (const auto& n : *names) out.append(out.size() > 1 ? ", " : "").append(spec_entry_text(n));
  return out + ")";
}

std::string named_sharding_text(const Json& json) {
  const Json* spec = json.find("partition_spec");
  const Json* axes = json.find("axis_names");
  const Json* shape = json.find("shape");
  std::string out = "P(";
  if (spec != nullptr && spec->as_array() != nullptr)
    for (const auto& entry : *spec->as_array()) out.append(out.size() > 2 ? ", " : "").append(spec_entry_text(entry));
  out += ')';
  if (axes == nullptr || shape == nullptr || axes->as_array() == nullptr || shape->as_array() == nullptr) return out;
  std::string mesh;
  for (std::size_t i = 0; i < axes->as_array()->size() && i < shape->as_array()->size(); ++i) {
    const auto* name = (*axes->as_array())[i].as_string();
    const auto extent = (*shape->as_array())[i].as_int64();
    if (name != nullptr && extent) mesh.append(mesh.empty() ? "" : ", ").append(*name).append(": ").append(std::to_string(*extent));
  }
  return out + " on (" + mesh + ")";
}

}  // namespace

std::string sharding_text(std::string_view json) {
  if (json.empty()) return "";
  const auto parsed = try_call([&] { return parse_json(json); });
  if (!parsed.ok()) return printable(json);
  const Json* type = parsed.value().find("sharding_type");
  if (type != nullptr && type->as_string() != nullptr) {
    if (*type->as_string() == "NamedSharding") return printable(named_sharding_text(parsed.value()));
    const Json* device = parsed.value().find("device_str");
    if (device != nullptr && device->as_string() != nullptr) return printable(*device->as_string());
  }
  return printable(json);
}

}  // namespace cairn
