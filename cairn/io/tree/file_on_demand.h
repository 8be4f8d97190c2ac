// file_on_demand.h -- a file that is open only while it is read: a process may have few files open,
// and a checkpoint may have thousands.
#pragma once

#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>

#include <string>

namespace cairn::inline v0 {

// A file that each read opens anew. As with a value of a store, the file cannot be mapped, and
// reads throw unavailable if it was replaced or written to since this call. A file of a store is
// opened as always. Throws as FileTree::open().
File file_on_demand(const FileTree& tree, const std::string& path);

}  // namespace cairn::inline v0
