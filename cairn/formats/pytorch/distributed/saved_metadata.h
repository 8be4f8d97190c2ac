// saved_metadata.h -- `.metadata` of a Distributed Checkpoint (torch.distributed.checkpoint): which
// tensors and objects it has, and which bytes of which files hold them.
//
//   Metadata              state_dict_metadata   name -> TensorStorageMetadata or
//                                               BytesStorageMetadata
//                         storage_data          MetadataIndex -> _StorageInfo
//                         planner_data          name -> path in the state dict
//   TensorStorageMetadata properties (dtype, ...), size, chunks [(offsets, sizes)]
//   MetadataIndex         fqn, offset (None: an object)
//   _StorageInfo          relative_path, offset, length, transform_descriptors
//
// Megatron-Core before 0.16 writes an MCoreMetadata, which has one more attribute:
//
//   mcore_data            name -> {'nd_reformulated_orig_global_shape': shape}
//
// Such a tensor is a grid of the flattened parts of the ranks: not of the shape of the model's.
//
// Source of the rules: what torch 2.13 writes, its dataclasses in
// torch.distributed.checkpoint.metadata, and what megatron-core 0.15.0 writes.
#pragma once

#include <cairn/formats/pytorch/distributed/transforms.h>
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/element.h>
#include <cairn/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

// The bytes of one chunk or object: a zip archive of torch.save inside a file.
struct Entry {
  std::uint32_t file = 0;  // index into DistributedMetadata::files
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Transforms transforms;  // what the archive went through; empty for nothing
};

struct SavedChunk {
  Box box;
  std::optional<Entry> entry;  // nullopt: no file is named for it
};

// A tensor, or an object if `element_name` is "".
struct SavedValue {
  std::string name;
  std::string element_name;             // "torch.float32"
  std::optional<TorchElement> element;  // nullopt: Cairn does not know it
  Shape shape;
  std::vector<SavedChunk> chunks;
  std::optional<Entry> entry;  // of an object
};

// A step of a path in the state dict that was saved: a key of a dict, or an index of a list.
struct PathStep {
  std::string text;
  bool is_index = false;
  bool operator==(const PathStep&) const = default;
};
using StatePath = std::vector<PathStep>;

struct DistributedMetadata {
  std::vector<std::string> files;  // paths in the folder, each once
  std::vector<SavedValue> values;  // in the order of the state dict
  std::map<std::string, StatePath> paths;
  std::vector<std::string> flattened;       // "w [4, 6]": tensors with their shape in the model
  std::vector<std::string> unsafe_globals;  // that no Distributed Checkpoint of PyTorch names
};

// Reads the pickle. Nothing in it is executed. Throws data_loss for values that PyTorch does not
// write, for a file outside of the folder, and for chunks that take more memory than a pickle of
// this size can describe; invalid_argument for a pickle of something else; unimplemented for other
// metadata of PyTorch.
DistributedMetadata parse_distributed_metadata(pickle::Pickle pickle);

// Adds what another process has saved, with its own metadata: its chunks come before those that
// are there, so that the chunks of the first process count. Throws data_loss if the two describe a
// tensor differently.
void add_metadata(DistributedMetadata& all, DistributedMetadata more);

}  // namespace cairn::inline v0::pytorch
