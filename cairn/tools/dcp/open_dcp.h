// open_dcp.h -- opens Distributed Checkpoints of PyTorch, and the steps of a run of them.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/io/tree/file_tree.h>
#include <cairn/tools/dcp/dcp_run.h>

#include <memory>
#include <string>

namespace cairn::inline v0 {

// As open_distributed(), for a folder that may be a step of one of Cairn's managers: then the
// metadata of the step is CheckpointInfo::custom_metadata.
std::unique_ptr<Checkpoint> open_dcp(const FileTree& tree, const std::string& folder,
                                     const OpenOptions& options);
// Opens a step of a run, with a warning for each later one that lacks files.
std::unique_ptr<Checkpoint> open_dcp_step(const FileTree& tree, const ChosenDcpStep& chosen,
                                          OpenOptions options);

}  // namespace cairn::inline v0
