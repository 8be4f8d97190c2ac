// folder.h -- what Megatron-Core adds to the folder of a Distributed Checkpoint.
//
//   metadata.json   {"sharded_backend": "torch_dist", "sharded_backend_version": 1,
//                    "common_backend": "torch", "common_backend_version": 1}; written last
//   common.pt       a file of torch.save with what is the same on all ranks
//   objects         the list [object], named "<key>/shard_<offset>_<shape>", such as
//                   "rng_state/shard_0.1_1.2"
//
// Source of the rules: what megatron-core 0.16.1 writes.
#pragma once

#include <cairn/io/tree/file_tree.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0::pytorch::megatron {

using FolderNames = std::set<std::string, std::less<>>;

inline constexpr const char* kConfigFile = "metadata.json";
inline constexpr const char* kCommonFile = "common.pt";

// metadata.json. A value that is missing has the default that Megatron-Core gives it.
struct Config {
  std::string sharded_backend;
  std::int64_t sharded_version = 1;
  std::string common_backend = "torch";
  std::int64_t common_version = 1;
};

// Reads metadata.json. nullopt: it is missing, or another program's.
std::optional<Config> find_config(const FileTree& tree, const std::string& folder,
                                  const FolderNames& names);
// Throws unimplemented, with the path, for backends and versions that Cairn does not read.
void check_supported(const Config& config, const std::string& folder);

// "rng_state" and "shard_0.1_1.2" of the name of an object; nullopt for any other name.
std::optional<std::pair<std::string, std::string>> split_object_name(std::string_view name);

}  // namespace cairn::inline v0::pytorch::megatron
