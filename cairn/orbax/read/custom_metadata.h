// custom_metadata.h -- opens arrays whose Zarr metadata has another name than .zarray or zarr.json.
// TensorStore's "zarr" driver and Orbax's array handlers accept such a name as "metadata_key". The
// checkpoint itself does not record the name.
//
//   <name>/.zarray   <name>/0.0      as usual
//   <name>/meta.json <name>/0.0      ArrayHandler(metadata_key="meta.json")
#pragma once

#include <cairn/orbax/read/pytree_item.h>
#include <cairn/tree/name_table.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

// Opens the arrays of `item` whose metadata is named `wanted` (unless `wanted` is ""), even if they
// also have other metadata. For an array that has neither this metadata nor metadata with the usual
// name, the function searches for the metadata. The metadata is the one key below the array's name
// that is not a chunk, does not belong to another leaf, and contains Zarr metadata. Adds the names
// found to item.custom_keys.
void open_custom_arrays(PytreeItem& item, const NameTable& names, const std::string& wanted);

// Returns the array names whose metadata is named `wanted`, sorted: the keys in `item` without the
// metadata name.
std::vector<std::string> find_custom_names(const PytreeItem& item, std::string_view wanted);

}  // namespace cairn::inline v0::orbax
