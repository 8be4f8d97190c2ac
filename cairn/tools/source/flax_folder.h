// flax_folder.h -- a folder of flax.training.checkpoints: msgpack files `checkpoint_<step>`.
#pragma once

#include <cairn/io/tree/file_tree.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Returns the files of the steps in `folder`, sorted by step. The order is that of flax: by number,
// so checkpoint_10 follows checkpoint_9. Empty if there are none.
std::vector<std::string> flax_step_files(const FileTree& tree, const std::string& folder);

// Returns the file of the wanted step, or of the latest; nullopt if the folder has no step. Throws
// not_found if it has others only.
std::optional<std::string> flax_step_file(const FileTree& tree, const std::string& folder,
                                          std::optional<std::int64_t> step);

}  // namespace cairn::inline v0
