// bundle_place.h -- the data files of TensorFlow checkpoints in their folder.
#pragma once

#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The paths of all data files under this prefix, whichever checkpoint they belong to, sorted.
std::vector<std::string> bundle_data_files(const std::string& prefix);

// A checkpoint that is complete except that its files lack their final names.
struct FinishedBundle {
  std::size_t files = 0;                                              // number of data files
  std::function<void(std::size_t i, const std::string& path)> place;  // as in FileSet
  // `shards`: the number for the header
  std::function<void(AtomicFile& file, std::size_t shards)> write_index;
};

// Puts the checkpoint into place at the prefix and removes the data files of the one it replaces.
// The caller holds the OutputLock of the prefix. Throws as place_set does.
void place_bundle(const std::string& prefix, const FinishedBundle& bundle, IfExists if_exists);

}  // namespace cairn::inline v0
