// dcp_plan.h -- what each process writes of a Distributed Checkpoint of PyTorch.
#pragma once

#include <cairn/bytes.h>
#include <cairn/distributed/process_group.h>
#include <cairn/formats/pytorch/write/distributed_file.h>
#include <cairn/formats/pytorch/write/distributed_metadata.h>
#include <cairn/formats/pytorch/write/state_entries.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The data file of a process, by its rank.
std::string dcp_data_file(std::size_t rank);

// A planned checkpoint, as each process knows it.
struct DcpPlan {
  std::vector<pytorch::StateEntry> entries;
  std::unique_ptr<const pytorch::DistributedFile> own;  // what this process writes
  std::vector<pytorch::WrittenFile> files;              // of all processes that write something
  std::optional<std::size_t> number = {};               // of this process's own among them

  // The content of `.metadata`.
  [[nodiscard]] Bytes metadata() const;
};

// Plans this process's part, and learns those of the others. Borrows everything. Throws
// invalid_argument, naming the leaf, for a leaf that PyTorch cannot load, and if the processes do
// not save the same entries.
DcpPlan plan_dcp(const distributed::ProcessGroup& group, const Tree& tree,
                 std::span<const TensorSource> sources, const std::vector<DictKeyTypes>& key_types,
                 const pytorch::ChunkRules& chunks);

}  // namespace cairn::inline v0
