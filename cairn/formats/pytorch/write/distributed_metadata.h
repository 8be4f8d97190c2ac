// distributed_metadata.h -- writes `.metadata`, the pickle that says where the tensors and objects
// of a Distributed Checkpoint lie (distributed/saved_metadata.h).
#pragma once

#include <cairn/bytes.h>
#include <cairn/formats/pytorch/write/distributed_file.h>
#include <cairn/formats/pytorch/write/state_entries.h>

#include <span>
#include <string>

namespace cairn::inline v0::pytorch {

// The pickle for a checkpoint with one data file of this name. It states no folder and no random
// id: a copy of the folder is the same checkpoint, and equal contents give equal files.
Bytes distributed_metadata(std::span<const StateEntry> entries, const DistributedFile& file,
                           const std::string& file_name);

}  // namespace cairn::inline v0::pytorch
