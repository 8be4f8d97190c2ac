// distributed_metadata.h -- writes `.metadata`, the pickle that says where the tensors and objects
// of a Distributed Checkpoint lie (distributed/saved_metadata.h).
#pragma once

#include <cairn/bytes.h>
#include <cairn/formats/pytorch/write/distributed_file.h>
#include <cairn/formats/pytorch/write/state_entries.h>

#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::pytorch {

// The parts in one data file.
struct WrittenFile {
  std::string name;  // in the folder
  std::vector<WrittenPart> parts;
};

// Packs the parts, for the process that writes the metadata, and unpacks them.
Bytes parts_message(std::span<const WrittenPart> parts);
std::vector<WrittenPart> parts_of_message(ByteView message);

// The pickle for a checkpoint of these data files; `any` knows the tensors. It states no folder and
// no random id: a copy of the folder is the same checkpoint, and equal contents give equal files.
Bytes distributed_metadata(std::span<const StateEntry> entries, const DistributedFile& any,
                           std::span<const WrittenFile> files);

}  // namespace cairn::inline v0::pytorch
