// bundle_merge.h -- merges several TensorFlow checkpoints into one, as TensorFlow's
// MergeV2Checkpoints does: the data files get new names, and one index replaces all.
#pragma once

#include <span>
#include <string>

namespace cairn::inline v0 {

// Options of merge_bundles.
struct BundleMergeOptions {
  // remove the folders of the parts that are then empty, except the folder of the result
  bool delete_old_dirs = false;
  bool allow_missing_files = false;  // skip missing parts; at least one must exist
};

// Merges the parts, in their order, into a checkpoint at `prefix`, and removes the parts. Values
// are neither read nor checked. Several parts may have the same key only if each has slices of that
// tensor.
//
// Until the result is in place, the parts stay as they were, and so does a checkpoint at `prefix`
// that it replaces. If `prefix` already holds the values of all these parts, because an earlier
// merge was stopped, that checkpoint stays and the parts are removed.
//
// Throws invalid_argument for a duplicate key, for byte orders or versions that differ, and for
// missing parts; not_found for a missing data file; data_loss, naming the part, for a damaged
// index, and for slices of a tensor that overlap.
void merge_bundles(std::span<const std::string> parts, const std::string& prefix,
                   const BundleMergeOptions& options = {});

}  // namespace cairn::inline v0
