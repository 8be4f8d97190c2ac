// universal_reader.h -- opens a Universal checkpoint, which ds_to_universal makes of one of ZeRO:
// each parameter has a folder, with a file for its weights and for each of its moments.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/pytorch/deepspeed/folder.h>
#include <cairn/io/tree/file_tree.h>

#include <memory>
#include <string>

namespace cairn::inline v0::pytorch::deepspeed {

// Throws failed_precondition for a checkpoint whose conversion has not ended, data_loss for a
// missing or damaged file. The messages name the file.
std::unique_ptr<Checkpoint> open_universal(const FileTree& tree, const std::string& folder,
                                           const FolderNames& names, const OpenOptions& options);

}  // namespace cairn::inline v0::pytorch::deepspeed
