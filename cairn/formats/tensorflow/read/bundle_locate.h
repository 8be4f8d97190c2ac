// bundle_locate.h -- from what a user names to the prefix of a TensorFlow checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

struct BundlePlace {
  std::string prefix;  // of <prefix>.index and <prefix>.data-*
  // in words, for people: "the latest of its state file"; "" for a prefix
  std::string found_by;
  std::optional<std::int64_t> step;  // the number that the prefix ends with ("ckpt-12")
};

// Of a prefix, an index, a data file, a state file ("checkpoint"), its folder, a SavedModel's
// folder, or a folder that has one index. nullopt where there is nothing of the kind. Of several
// checkpoints in a folder it is the state file's latest one, or that of `step`. Throws not_found
// where there are such files, but not the one wanted. A file `checkpoint` that is no state file is
// none of ours.
std::optional<BundlePlace> locate_bundle(const std::string& path,
                                         std::optional<std::int64_t> step = {});

// The prefixes of all checkpoints in a folder, by their steps.
std::vector<std::string> bundle_prefixes(const std::string& folder);

}  // namespace cairn
