// web_folder.h -- finds a checkpoint in a folder of a web server, which cannot be listed: asks for
// the names that checkpoints have, and for those that their records name.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/io/tree/file_tree.h>

#include <string>

namespace cairn::inline v0 {

// Where a reader of the URL looks: around the file at the URL or the TensorFlow checkpoint of this
// prefix, or else in the folder at the URL, with the files that were found. A step of `options` is
// found in a folder of steps, too. Throws not_found, with the names that were tried, if nothing is
// there.
FileTree web_tree_at(const std::string& url, const OpenOptions& options);

}  // namespace cairn::inline v0
