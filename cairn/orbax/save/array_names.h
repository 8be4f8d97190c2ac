// array_names.h -- checks the names of the arrays of a save, before anything is written.
#pragma once

#include <cairn/handlers/array_writer.h>
#include <cairn/orbax/save/item_writer.h>

#include <cstddef>
#include <span>

namespace cairn::inline v0::orbax {

// Throws invalid_argument, naming the parameters, for names that cannot be stored, and for two
// leaves that would be stored in one place.
void check_array_names(const SaveItem& item, bool use_ocdbt);

// Throws invalid_argument, naming both, if the folder of one array would take the place of a file
// of another one: "x/0" and the chunk "0" of "x". `arrays` are the positions in the item of the
// arrays of `writer`, which writes each to a folder of its own.
void check_array_folders(const SaveItem& item, std::span<const std::size_t> arrays,
                         const handlers::ArrayWriter& writer);

}  // namespace cairn::inline v0::orbax
