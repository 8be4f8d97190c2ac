// completeness.h -- whether a Distributed Checkpoint is all there, from its metadata alone.
#pragma once

#include <cairn/io/tree/file_tree.h>

#include <string>

namespace cairn::inline v0::pytorch {

// Returns why the folder is not a complete Distributed Checkpoint: it is none, its metadata is
// missing or damaged, or a data file that the metadata names is missing or too short. "" if it is
// complete. Reads no data. Throws io if something cannot be read.
std::string why_incomplete(const FileTree& tree, const std::string& folder);

}  // namespace cairn::inline v0::pytorch
