// bundle_place.h -- the data files of TensorFlow checkpoints in their folder.
#pragma once

#include <cairn/io/file.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace cairn {

// Paths of the data files that are under this prefix, of whatever checkpoint.
std::vector<std::string> bundle_data_files(const std::string& prefix);

// A checkpoint that lacks only the names of its files.
struct FinishedBundle {
  std::size_t files = 0;                                              // of data
  std::function<void(std::size_t i, const std::string& path)> place;  // as in FileSet
  // `shards`: the header's number
  std::function<void(AtomicFile& file, std::size_t shards)> write_index;
};

// Puts it into place at the prefix, whose OutputLock the caller has, and removes the data files of
// the one that was there. Throws as place_set.
void place_bundle(const std::string& prefix, const FinishedBundle& bundle, IfExists if_exists);

}  // namespace cairn
