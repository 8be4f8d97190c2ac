// zero_reader.h -- opens a tag folder that DeepSpeed saved with ZeRO.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/pytorch/deepspeed/folder.h>
#include <cairn/io/tree/file_tree.h>

#include <memory>
#include <string>

namespace cairn::inline v0::pytorch::deepspeed {

// Throws data_loss for damage and for parts that do not add up, failed_precondition for files of
// several saves; else as list_state_files(). The messages name the file.
std::unique_ptr<Checkpoint> open_zero(const FileTree& tree, const std::string& folder,
                                      const StateFiles& names, const OpenOptions& options);

// The same for a folder without optimizer states: DeepSpeed saved it without ZeRO, and its file of
// model states has all. Throws data_loss if ZeRO was used.
std::unique_ptr<Checkpoint> open_model_alone(const FileTree& tree, const std::string& folder,
                                             const StateFiles& names, const OpenOptions& options);

}  // namespace cairn::inline v0::pytorch::deepspeed
