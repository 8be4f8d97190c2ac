// bundle_files.h -- what the files of a TensorFlow checkpoint are called.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

inline std::string bundle_index_path(std::string_view prefix) { return std::string(prefix) + ".index"; }
// shard: of `count` data files, from 0 on.
inline std::string bundle_data_path(std::string_view prefix, std::uint64_t shard, std::uint64_t count) {
  return fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, count);
}

}  // namespace cairn
