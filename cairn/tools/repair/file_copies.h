// file_copies.h -- copies that are read from the data of files whose index, directory or end is
// damaged.
#pragma once

#include <cairn/tools/repair/copies.h>

#include <string>

namespace cairn::inline v0 {

// Adds what may be read at the path beside the checkpoint as it is. `path` is a file, the prefix of
// a TensorFlow checkpoint, or a folder.
void add_file_copies(const std::string& path, const OpenOptions& options, FoundCopies& found);

}  // namespace cairn::inline v0
