// trainer_folder.h -- folders of a training run of PyTorch: a model, and other files beside it.
//
//   Trainer, Accelerate   model.safetensors, pytorch_model.bin, or an index and its files
//                         with FSDP: pytorch_model_fsdp.bin, or the folder pytorch_model_fsdp_0
//                         beside it: optimizer.pt, scheduler.bin, rng_state.pth, optimizer_0, ...
//   Lightning             last.ckpt, epoch=3-step=100.ckpt: files or folders
//
// A folder in such a folder is a Distributed Checkpoint. Each file and each of these folders is an
// item, and its name is the item's name.
#pragma once

#include <cairn/io/tree/file_tree.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The names of the items in a folder, sorted. The files of a set are no items: its index is one.
// Opens no file but the indexes.
std::vector<std::string> trainer_items(const FileTree& tree, const std::string& folder);

// Of these items, the model of a folder that has none with a name of Hugging Face's: that of FSDP,
// last.ckpt, or the only .ckpt file of PyTorch. nullopt if there is none. Throws invalid_argument
// for several .ckpt files: nobody can tell which one is meant.
std::optional<std::string> find_trainer_model(const FileTree& tree, const std::string& folder,
                                              const std::vector<std::string>& items);

}  // namespace cairn::inline v0
