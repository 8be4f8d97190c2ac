// salvage.h -- opens what is left of safetensors files: truncated ones, and sets whose index is
// missing, damaged or stale.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/io/tree/file_tree.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Opens the files as one checkpoint, without an index; `index` is the path of a damaged or stale
// one that lists more tensors, or "". A tensor that is lost in part has the rows that are left; a
// tensor that is lost is an unreadable leaf. Of tensors of one name in several files, the one in
// the file that the index names counts; without that, none. Appends what was found to `notes`.
// Throws data_loss if no file has a header that can be read. `path` is that of the checkpoint.
std::unique_ptr<Checkpoint> salvage_safetensors(const FileTree& tree, const std::string& path,
                                                const std::vector<std::string>& files,
                                                const std::string& index,
                                                const OpenOptions& options,
                                                std::vector<std::string>& notes);

}  // namespace cairn::inline v0
