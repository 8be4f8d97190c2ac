// open_to_verify.h -- opens checkpoints for verify, which inspects as much as possible, even if
// there is damage, and all steps.
#pragma once

#include <cairn/checkpoint.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Opens as open() does. If an item of an Orbax checkpoint cannot be opened, the report of verify
// names it instead of this function throwing.
std::unique_ptr<Checkpoint> open_to_verify(const std::string& where, const OpenOptions& options);

// The paths of all steps of an Orbax step root, by number, or of all checkpoints in a TensorFlow
// folder. Throws invalid_argument for anything else, and if the options select one step.
std::vector<std::string> list_steps(const std::string& where, const OpenOptions& options);

}  // namespace cairn::inline v0
