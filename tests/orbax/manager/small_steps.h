// small_steps.h -- a manager that keeps three steps, and steps of one number.
#pragma once

#include <cairn/checkpoint_manager.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace cairn::testing {

inline CheckpointManagerOptions three_steps(
    CommitProtocol protocol = CommitProtocol::kAtomicRename) {
  CheckpointManagerOptions options{.max_to_keep = 3, .enable_async_checkpointing = false};
  options.handler.commit_protocol = protocol;
  options.handler.resources.threads = 1;
  return options;
}

inline std::string protocol_name(const ::testing::TestParamInfo<CommitProtocol>& protocol) {
  return protocol.param == CommitProtocol::kAtomicRename ? "AtomicRename" : "CommitMarker";
}

inline Tree tree_of(std::int64_t step) { return Tree{{"x", step}}; }

inline void save_step(CheckpointManager& manager, std::int64_t step) {
  manager.save(step, PyTreeSaveArgs{tree_of(step)});
}

}  // namespace cairn::testing
