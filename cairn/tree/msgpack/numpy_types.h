// numpy_types.h -- NumPy's types that Cairn has no DType for.
#pragma once

#include <cairn/tree/msgpack/msgpack.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// The size in bytes of an element of a type that NumPy finds by its name: float128, complex256,
// datetime64 and timedelta64 with or without a unit. Nothing for other names.
std::optional<std::uint64_t> size_in_numpy(std::string_view name);

// Returns why nobody can restore the elements of a leaf: its type has a name that neither Cairn nor
// NumPy finds. Returns "" for all other leaves.
std::string why_unreadable(const MsgpackLeaf& leaf);

}  // namespace cairn::inline v0
