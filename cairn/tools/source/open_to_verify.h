// open_to_verify.h -- opening for verify, which wants to see as much as there is: with damage and
// in steps.
#pragma once

#include <cairn/checkpoint.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn {

// As open(), but an item of an Orbax checkpoint that cannot be opened is left to the report of
// verify.
std::unique_ptr<Checkpoint> open_to_verify(const std::string& where, const OpenOptions& options);

// The paths of all steps of an Orbax step root, by their numbers, or of all checkpoints in a
// TensorFlow folder. Throws invalid_argument for anything else, and where the options name one of
// them.
std::vector<std::string> list_steps(const std::string& where, const OpenOptions& options);

}  // namespace cairn
