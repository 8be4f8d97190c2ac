// metadata.h -- `metadata.pkl` of a folder of torch_checkpointing: which tensors are divided among
// ranks, how, and which files hold their parts.
//
//   version, world_size
//   metadata   {item: {nested_path_to_metadata: {'["a",0]': [{sharding_metadata, ranks}]},
//                      rank_to_layout_info: {rank: None or {file_path, serialization_format}}}}
//   sharding_metadata   {type: "DTensorShardingMetadata",
//                        data: {global_shape, dtype, mesh_spec, placements}}
//                    or {type: "default_tensor_v1",
//                        data: {global_shape, dtype, global_offsets, local_offsets, local_sizes}}
//
// Version 1.0:
//
//   metadata                      {'["item","a",0]': [{sharding_metadata, ranks}]}
//   rank_to_layout_info_mappings  {rank: {item: None or {file_path, serialization_format}}}
//
// Source of the rules: what torch_checkpointing 0.1.1 writes, and what it reads of version 1.0. The
// pickle names no global.
#pragma once

#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch::torch_checkpointing {

enum class PlacementKind : std::uint8_t { kReplicate, kShard, kStridedShard };

// What one axis of the mesh does with a tensor.
struct Placement {
  PlacementKind kind = PlacementKind::kReplicate;
  std::size_t axis = 0;  // of the tensor, which is divided
};

// A part of the whole tensor, and where it lies in the tensor that a rank has.
struct LocalPart {
  Box box;
  Shape local;  // origin in the tensor of the rank
};

// How some ranks divide a tensor among each other: by a mesh, or each has the parts of a list.
struct Division {
  Shape shape;  // of the whole tensor
  std::string dtype;
  std::optional<std::vector<LocalPart>> parts = {};  // nullopt: by the mesh
  Shape mesh;                                        // shape of the mesh of ranks
  std::vector<std::uint64_t> mesh_ranks;             // in C order
  std::vector<Placement> placements;                 // parallel to mesh
  std::vector<std::uint64_t> ranks;                  // that have a part
};

struct DividedTensor {
  std::vector<std::string> path;  // in the item
  std::vector<Division> divisions;
};

enum class ItemFormat : std::uint8_t { kTorch, kSafetensors };

// The file in which a rank has an item.
struct ItemFile {
  std::uint64_t rank = 0;
  std::string path;  // in the folder
  ItemFormat format = ItemFormat::kTorch;
};

struct Item {
  std::string name;
  std::vector<DividedTensor> tensors;
  std::vector<ItemFile> files;  // by rank
};

struct SavedMetadata {
  std::uint64_t world_size = 0;
  std::vector<Item> items;
};

// Throws data_loss for values that torch_checkpointing does not write and for files outside of the
// folder, invalid_argument for another pickle, unimplemented for another version, another kind of
// division and another format.
SavedMetadata parse_metadata(const pickle::Pickle& pickle);

// The part of the tensor that a rank of a mesh has. Throws data_loss for a rank that is not in the
// mesh.
Box box_of_rank(const Division& division, std::uint64_t rank);

}  // namespace cairn::inline v0::pytorch::torch_checkpointing
