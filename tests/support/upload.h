// upload.h -- copies a folder to a store, as a person copies a checkpoint to a bucket.
#pragma once

#include <cairn/io/file.h>
#include <cairn/storage/kvstore.h>

#include <filesystem>
#include <string>

namespace cairn::testing {

// `url` becomes the folder: its keys are the paths of the files.
inline void upload(const std::string& folder, const std::string& url) {
  const StorePtr store = open_store(url);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      store->write(entry.path().lexically_relative(folder).string(),
                   read_file(entry.path().string()));
}

}  // namespace cairn::testing
