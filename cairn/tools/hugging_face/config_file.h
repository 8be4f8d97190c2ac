// config_file.h -- the config.json that stands beside the weights of a Hugging Face model.
#pragma once

#include <cairn/storage/store_options.h>

#include <optional>
#include <string>

namespace cairn::inline v0 {

struct ConfigFile {
  std::string path;
  std::string text;  // without a byte-order mark
};

// Reads the config.json in the folder of a checkpoint, or beside its file. `path`: as
// CheckpointInfo::path. Nullopt if there is none; it is not looked for on web servers, which cannot
// list a folder. Throws for one that cannot be read, and for one of more than 16 MiB.
std::optional<ConfigFile> find_config_file(const std::string& path, const StoreOptions& store);
// Reads that file, and throws not_found if it does not exist.
ConfigFile read_config_file(const std::string& path, const StoreOptions& store);

}  // namespace cairn::inline v0
