// bundle_files.h -- file names of a TensorFlow checkpoint: making them and taking them apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Throws invalid_argument if `prefix` is empty or ends with '/', that is, names a folder.
void check_bundle_prefix(std::string_view prefix);
// The path of the index: "<prefix>.index".
std::string bundle_index_path(std::string_view prefix);
// shard: the number of the data file, from 0 to count - 1.
std::string bundle_data_path(std::string_view prefix, std::uint64_t shard, std::uint64_t count);
// The prefix in the name of a data file: "x.data-00001-of-00002" gives "x". Returns nullopt for any
// other name.
std::optional<std::string> prefix_of_data(std::string_view path);

}  // namespace cairn::inline v0
