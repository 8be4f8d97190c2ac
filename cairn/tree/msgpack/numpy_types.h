// numpy_types.h -- NumPy's types that Cairn has no DType for.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::inline v0 {

// The size in bytes of an element of a type that NumPy finds by its name: float128, complex256,
// datetime64 and timedelta64 with or without a unit. Nothing for other names.
std::optional<std::uint64_t> size_in_numpy(std::string_view name);

}  // namespace cairn::inline v0
