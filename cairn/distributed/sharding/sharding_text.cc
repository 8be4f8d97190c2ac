// sharding_text.cc -- describes a sharding in one line, for messages.
#include <cairn/orbax/sharding.h>

namespace cairn::inline v0 {
namespace {

std::string joined(std::span<const std::string> parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : std::string(between)) + part;
  return text;
}

// Returns one entry as Python writes it: 'x', ('x', 'y') or None.
std::string entry_text(const std::vector<std::string>& axes) {
  if (axes.empty()) return "None";
  std::vector<std::string> quoted;
  quoted.reserve(axes.size());
  for (const std::string& axis : axes) quoted.push_back("'" + axis + "'");
  return axes.size() == 1 ? quoted[0] : "(" + joined(quoted, ", ") + ")";
}

std::string named_text(const NamedSharding& sharding) {
  const Mesh& mesh = sharding.mesh;
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < mesh.axis_names.size() && a < mesh.shape.size(); ++a)
    axes.push_back(mesh.axis_names[a] + "=" + std::to_string(mesh.shape[a]));
  std::vector<std::string> entries;
  for (const auto& entry : sharding.spec) entries.push_back(entry_text(entry));
  return "NamedSharding(" + joined(axes, ",") + "; P(" + joined(entries, ", ") + "))";
}

}  // namespace

std::string sharding_text(const Sharding& sharding) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding)) return named_text(*named);
  if (const auto* single = std::get_if<SingleDeviceSharding>(&sharding))
    return "SingleDeviceSharding(" + single->device + ")";
  if (const auto* parts = std::get_if<ExplicitSharding>(&sharding))
    return "ExplicitSharding(" + std::to_string(parts->parts.size()) + " parts)";
  return std::get<UnknownSharding>(sharding).json;
}

}  // namespace cairn::inline v0
