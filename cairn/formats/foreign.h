// foreign.h -- names files that Cairn does not read.
#pragma once

#include <cairn/io/tree/file_tree.h>

#include <string>

namespace cairn::inline v0 {

// Throws if the file, which is of no format that Cairn reads, is recognised: unimplemented for a
// file of another program, invalid_argument for a web page and the like.
void refuse_foreign_file(const FileTree& tree, const std::string& path);
// Throws for the first file in the folder, by name, that is a model: unimplemented for one of
// another program, invalid_argument for one of PyTorch, which can be opened as a file. Passes over
// files that cannot be read, and inspects no more than 1000: the folder may be anybody's.
void refuse_foreign_files_in(const FileTree& tree, const std::string& folder);

}  // namespace cairn::inline v0
