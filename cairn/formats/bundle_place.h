// bundle_place.h -- the files of a TensorFlow checkpoint get their names so that what is under a prefix is a whole checkpoint or none.
#pragma once

#include <cairn/base/file.h>

#include <span>
#include <string>
#include <vector>

namespace cairn {

// Gives the finished files their names, `paths`, the index last. Where they take names that the index in place refers to, that goes first:
// no index ever names files of two checkpoints. If one cannot get its name, those that have theirs are removed, and as long as none had
// one, the old index comes back. Then data files of this prefix that are not among `paths` are removed.
void place_bundle(const std::string& prefix, std::span<AtomicFile* const> files, std::span<const std::string> paths);

// Names of the data files that are under this prefix, of whatever checkpoint.
std::vector<std::string> bundle_data_files(const std::string& prefix);

}  // namespace cairn
