// bundle_merge.h -- several TensorFlow checkpoints made one, as TensorFlow's MergeV2Checkpoints
// does: their data files get other names, and one index stands for all.
#pragma once

#include <span>
#include <string>

namespace cairn {

struct BundleMergeOptions {
  // folders of the parts, other than that of the result, that are empty then
  bool delete_old_dirs = false;
  bool allow_missing_files = false;  // parts that are not there are passed over, but not all
};

// Makes `prefix` of the parts, in their order, and removes them. A key may be in several only if
// each has slices of that tensor. Until the result is in place the parts, and a checkpoint at
// `prefix` that it replaces, are as they were. One that holds the values of all these parts
// already, as a merge that was stopped leaves it, stays, and the parts are removed. Throws
// invalid_argument for a key that is in two, for byte orders or versions that differ, and for parts
// that are missing; not_found for a data file that is missing; data_loss, naming the part, for
// damage to an index, and for slices of a tensor that overlap. Values are neither read nor checked.
void merge_bundles(std::span<const std::string> parts, const std::string& prefix,
                   const BundleMergeOptions& options = {});

}  // namespace cairn
