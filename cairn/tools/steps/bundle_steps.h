// bundle_steps.h -- the steps in the folder of TensorFlow's CheckpointManager.
#pragma once

#include <cairn/steps.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// The checkpoints in a folder whose prefixes end with a number ("ckpt-12"), in ascending order;
// none if it has no such files. A record's path is the prefix. Reads the indexes, but no arrays.
std::vector<StepRecord> read_bundle_steps(const std::string& folder);

}  // namespace cairn::inline v0
