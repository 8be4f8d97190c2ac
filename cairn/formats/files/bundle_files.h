// bundle_files.h -- what the files of a TensorFlow checkpoint are called.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

// Throws invalid_argument for what is no prefix of files but a folder.
void check_bundle_prefix(std::string_view prefix);
std::string bundle_index_path(std::string_view prefix);
// shard: of `count` data files, from 0 on.
std::string bundle_data_path(std::string_view prefix, std::uint64_t shard, std::uint64_t count);
// The reverse: "x.data-00001-of-00002" is of "x"; nullopt for what is no such name.
std::optional<std::string> prefix_of_data(std::string_view path);
// Of a prefix, or of one of its files; "." for the folder that a program is in.
std::string bundle_folder(std::string_view path);

}  // namespace cairn
