// open_to_verify.h -- opens checkpoints for verify, which inspects as much as possible, even if
// there is damage, and all steps.
#pragma once

#include <cairn/checkpoint.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Opens as open() does. If an item of an Orbax checkpoint cannot be opened, the report of verify
// names it instead of this function throwing.
std::unique_ptr<Checkpoint> open_to_verify(const std::string& where, const OpenOptions& options);

// The paths of all steps of an Orbax step root, by number, or of all checkpoints in a TensorFlow
// folder or a folder of flax checkpoints. Empty for anything else. Throws not_found if nothing is
// there.
std::vector<std::string> list_steps(const std::string& path, const StoreOptions& store = {});

// The number at the end of "12", "step_0012" and "ckpt-12".
std::optional<std::int64_t> number_at_end(const std::string& name);

// A checkpoint in a folder.
struct ListedCheckpoint {
  std::string path;
  std::optional<std::int64_t> step;  // its number, if it is one of list_steps()
};
// All checkpoints in a folder: the steps, by number, then the others, by name. A file
// or folder counts if open() would open it, or would report it as damaged or unfinished. Throws
// invalid_argument if `where` is one checkpoint, or holds none, or if the options select one step.
std::vector<ListedCheckpoint> list_checkpoints(const std::string& where,
                                               const OpenOptions& options);

}  // namespace cairn::inline v0
