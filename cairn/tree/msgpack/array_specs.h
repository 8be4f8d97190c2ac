// array_specs.h -- finds the arrays that T5X stores beside its msgpack file. In place of each, the
// file has the array's TensorStore spec, a dict:
//   {"driver": "zarr", "kvstore": {"driver": "file", "path": "target.w/"}, "metadata": {...}, ...}
// The path is relative to the file's folder. Before TensorStore 0.1.14 it was a member of the spec
// itself.
#pragma once

#include <cairn/tree.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// An array that is stored in a folder of its own.
struct StoredElsewhere {
  KeyPath path;        // of the leaf
  std::string folder;  // relative to the msgpack file's folder, without a final '/'
};

// A string that starts so stands for an array that is stored under the leaf's name.
inline constexpr std::string_view kArrayPlaceholder = "PLACEHOLDER://";

// Replaces each spec in a tree of parse_msgpack by a string leaf with kArrayPlaceholder. Throws
// unimplemented, naming the leaf, for drivers other than those of local Zarr arrays (T5X also reads
// the specs of checkpoints that were copied from Google Cloud Storage, and so does this), data_loss
// for a spec without a path, and for a path that leads out of the folder.
std::vector<StoredElsewhere> take_array_specs(Tree& parsed);

}  // namespace cairn::inline v0
