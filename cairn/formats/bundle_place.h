// bundle_place.h -- the data files of TensorFlow checkpoints in their folder.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace cairn {

// Paths of the data files that are under this prefix, of whatever checkpoint.
std::vector<std::string> bundle_data_files(const std::string& prefix);
// A number of data files above `count` that no checkpoint under the prefix has: with it in their names,
// new files do not meet the old ones.
std::size_t free_shard_count(const std::string& prefix, std::size_t count);
// Removes the data files under the prefix that are not among `paths`.
void remove_other_data_files(const std::string& prefix, std::span<const std::string> paths);

}  // namespace cairn
