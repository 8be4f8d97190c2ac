// custom_metadata.h -- arrays whose metadata has another name than .zarray or zarr.json.
// TensorStore's "zarr" driver takes such a name as "metadata_key", and so do Orbax's array
// handlers; nothing in the checkpoint says what it is.
//
//   <name>/.zarray   <name>/0.0      as usual
//   <name>/meta.json <name>/0.0      ArrayHandler(metadata_key="meta.json")
#pragma once

#include <cairn/orbax/read/pytree_item.h>
#include <cairn/tree/name_table.h>

#include <string>
#include <string_view>

namespace cairn::orbax {

// Opens the arrays of `item` whose metadata is called `wanted` (unless that is ""), whatever else
// they have. Those that have neither this nor the usual metadata are looked for: under the one key
// below their name that is neither a chunk nor another leaf's and says that it is Zarr metadata.
// Adds to item.custom_keys.
void open_custom_arrays(PytreeItem& item, const NameTable& names, const std::string& wanted);

// The keys in `item` of all metadata named `wanted`, without that: names of arrays, sorted.
std::vector<std::string> find_custom_names(const PytreeItem& item, std::string_view wanted);

}  // namespace cairn::orbax
