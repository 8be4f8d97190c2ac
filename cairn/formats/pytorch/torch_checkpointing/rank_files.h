// rank_files.h -- the values that each rank has of an item.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/pytorch/tensors/meaning.h>
#include <cairn/formats/pytorch/torch_checkpointing/metadata.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch::torch_checkpointing {

// Keys from the root of an item to a value.
using TextPath = std::vector<std::string>;
TextPath texts_of(const KeyPath& path);

// A tensor that a rank has: a part of a whole one.
struct RankTensor {
  RawLeaf leaf;
  std::optional<TorchTensor> tensor = {};  // nullopt: its elements are in C order
};

// One file of a rank.
struct RankFile {
  std::uint64_t rank = 0;
  std::string path;
  StateFile file;  // of the format kTorch; with shared storages
  // The tensors and parts of tensors. Of a safetensors file, each path is a name.
  std::map<TextPath, RankTensor> parts;
  ItemFormat format = ItemFormat::kTorch;

  // The part of a tensor; null if there is none.
  [[nodiscard]] const RankTensor* find(const TextPath& tensor) const;
};

// Reads a file, the reader's file `number`. The second value is that file. Throws data_loss, with
// the path, if it is missing or damaged.
std::pair<RankFile, File> read_rank_file(const FileTree& tree, const std::string& folder,
                                         const ItemFile& named, std::uint32_t number,
                                         Executor& executor);

// Makes the whole tensor of the parts of all ranks. Of copies, that of the lowest rank counts.
// Takes what it does from `steps`, as cover(). Throws data_loss for parts that are missing, of
// another type or shape, or do not cover the tensor.
RawLeaf whole_tensor(const DividedTensor& tensor, const std::vector<RankFile>& files,
                     std::uint64_t& steps);

}  // namespace cairn::inline v0::pytorch::torch_checkpointing
