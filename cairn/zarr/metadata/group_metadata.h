// group_metadata.h -- the documents of a Zarr hierarchy that describe no array: `.zgroup`,
// `.zattrs` and `.zmetadata`, and the `zarr.json` of a group. Cairn needs none of them to read an
// array, but zarr-python opens no hierarchy whose documents are damaged.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::zarr {

// Returns whether a file of this name may be such a document.
bool is_group_document(std::string_view name);

// Returns what zarr-python refuses in the text of a document of this name, or nullopt if it reads
// it. Throws data_loss if the text is not JSON.
std::optional<std::string> find_group_fault(std::string_view name, std::string_view json);

}  // namespace cairn::inline v0::zarr
