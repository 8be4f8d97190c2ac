// shard_parts.h -- into how many parts a stored sharding cuts each dimension.
#pragma once

#include <cairn/orbax/sharding.h>
#include <cairn/types.h>

#include <optional>
#include <span>
#include <string>

namespace cairn::inline v0::page {

class ShardParts {
 public:
  // A stored sharding, as JSON text. One that is damaged or of an unknown type has no parts.
  explicit ShardParts(const std::string& json);

  // The number of equal parts of each dimension of an array. None if the sharding does not cut it,
  // or does not fit it. Looks at the mesh only, which may have a million devices.
  [[nodiscard]] std::optional<Shape> of(std::span<const std::int64_t> shape) const;

 private:
  std::optional<NamedSharding> sharding_;
};

}  // namespace cairn::inline v0::page
