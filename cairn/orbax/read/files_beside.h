// files_beside.h -- what the files beside the arrays say of the leaves: shardings, strings, and the
// implementations of random keys.
#pragma once

#include <cairn/orbax/read/pytree_item.h>
#include <cairn/tree/name_table.h>

#include <cstdint>

namespace cairn::inline v0::orbax {

// Whether a file of strings with another name than _strings.json may be used. Orbax's restore uses
// only the file that the type handler names.
enum class StringsFile : std::uint8_t { kUsual, kAny };

// Attaches the data of these files to the leaves; `names` is made of the item's tensors. A file
// that cannot be read is recorded in the item. A string without a value becomes a tensor with an
// error.
void attach_files(PytreeItem& out, const NameTable& names, StringsFile strings);

}  // namespace cairn::inline v0::orbax
