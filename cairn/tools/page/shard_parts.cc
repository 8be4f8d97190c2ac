// shard_parts.cc -- multiplies the axes of the mesh that cut a dimension.
#include <cairn/tools/page/shard_parts.h>

#include <cairn/error.h>

#include <algorithm>

namespace cairn::inline v0::page {
namespace {

// None for an axis that the mesh lacks.
std::optional<std::int64_t> axis_size(const Mesh& mesh, const std::string& name) {
  const auto found = std::ranges::find(mesh.axis_names, name);
  if (found == mesh.axis_names.end()) return std::nullopt;
  return mesh.shape[static_cast<std::size_t>(found - mesh.axis_names.begin())];
}

}  // namespace

ShardParts::ShardParts(const std::string& json) {
  const auto parsed = try_call([&] {
    Sharding sharding = parse_sharding(json);
    if (const auto* named = std::get_if<NamedSharding>(&sharding)) check_sharding(*named);
    return sharding;
  });
  if (!parsed.ok()) return;
  if (const auto* named = std::get_if<NamedSharding>(&parsed.value())) sharding_ = *named;
}

std::optional<Shape> ShardParts::of(std::span<const std::int64_t> shape) const {
  if (!sharding_ || sharding_->spec.size() > shape.size()) return std::nullopt;
  Shape parts(shape.size(), 1);
  for (std::size_t d = 0; d < sharding_->spec.size(); ++d) {
    for (const std::string& name : sharding_->spec[d]) {
      const auto size = axis_size(sharding_->mesh, name);
      if (!size) return std::nullopt;
      parts[d] *= *size;  // check_sharding() bounds the product of all axes
    }
    if (shape[d] % parts[d] != 0) return std::nullopt;
  }
  if (std::ranges::all_of(parts, [](std::int64_t n) { return n == 1; })) return std::nullopt;
  return parts;
}

}  // namespace cairn::inline v0::page
