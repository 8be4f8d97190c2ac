// shard.h -- one safetensors file: its header, and the leaves that its tensors make.
#pragma once

#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// A file with its header read and checked.
struct OpenShard {
  File file;
  std::uint64_t data_start;
  SafetensorsHeader header;
};

// Throws as File::open, and data_loss for a damaged header.
OpenShard open_shard(const FileTree& tree, const std::string& path);
// The leaf of a tensor in the reader's file `file`.
RawLeaf make_leaf(SafetensorsEntry entry, std::uint32_t file, std::uint64_t data_start);
// `__metadata__` as JSON; "" if there is none.
std::string metadata_text(const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace cairn::inline v0
