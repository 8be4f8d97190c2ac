// bundle_locate.h -- finds the prefix of the TensorFlow checkpoint that a user's path names.
#pragma once

#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// A checkpoint that was found.
struct BundlePlace {
  std::string prefix;  // as in <prefix>.index and <prefix>.data-*
  // how it was found, in words: "the latest of its state file"; "" for a prefix
  std::string found_by;
  std::optional<std::int64_t> step;  // the number that ends the prefix ("ckpt-12")
};

// Accepts a prefix, an index, a data file, a state file ("checkpoint"), the folder of a state file,
// the folder of a SavedModel, or a folder with one index. Of several checkpoints in a folder it
// chooses that of `step`, or else the state file's latest one. Returns nullopt if the path is none
// of these; a file `checkpoint` that is not a state file counts as unrelated. Throws not_found if
// there are such files but not the requested one. Throws invalid_argument if a folder has several
// checkpoints and no state file, or if the path names one checkpoint that is not that of `step`.
std::optional<BundlePlace> locate_bundle(const FileTree& tree, const std::string& path,
                                         std::optional<std::int64_t> step = {});

// Whether the file is a Git LFS pointer in place of an index or a data file.
bool is_lfs_pointer(const File& file);

// The prefixes of all checkpoints in a folder, sorted by step.
std::vector<std::string> bundle_prefixes(const FileTree& tree, const std::string& folder);

}  // namespace cairn::inline v0
