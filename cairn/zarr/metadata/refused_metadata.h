// refused_metadata.h -- finds metadata that Cairn reads, but other libraries refuse. Only `verify`
// asks: the values are known, and a reader may still want them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::zarr {

// The other libraries that may read an array. Orbax reads arrays with TensorStore. For an array
// that stands alone it is enough if TensorStore or zarr-python reads it.
enum class OtherReaders : std::uint8_t { kTensorStore, kTensorStoreOrZarrPython };

// Returns what the other readers refuse in the text of a `.zarray` or `zarr.json`, or nullopt if
// they read it. Metadata that Cairn does not read has an error of its own; the result is then
// meaningless.
std::optional<std::string> find_refused_metadata(std::string_view json, int zarr_format,
                                                 OtherReaders readers);

}  // namespace cairn::inline v0::zarr
