// sharded_tensors.h -- safetensors files of several processes, each of which holds parts of
// tensors: what PyTorch's HuggingFaceStorageWriter writes with save_distributed.
//
//   shard-00001-model-00001-of-00002.safetensors    rank (from 1), file of the model
//   __metadata__   DCP_SHARDING_INFO: {name: {"saved_offsets": [0, 4]}}   as JSON text
//
// There is no index. A tensor ends where its last part ends, so a lost part at its end cannot be
// noticed. Source of the rules: torch 2.13, torch.distributed.checkpoint.hf_storage.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/io/tree/file_tree.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Whether a file with this header holds parts of tensors.
bool has_sharded_tensors(const SafetensorsHeader& header);
// Whether the first of the files, by name, is one of such a set.
bool are_sharded_files(const FileTree& tree, const std::string& folder,
                       const std::vector<std::string>& names);
// Opens the files as one checkpoint of whole tensors.
std::unique_ptr<Checkpoint> open_sharded_files(const FileTree& tree, const std::string& folder,
                                               const std::vector<std::string>& names,
                                               const OpenOptions& options);

}  // namespace cairn::inline v0
