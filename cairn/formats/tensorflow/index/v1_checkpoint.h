// v1_checkpoint.h -- recognises the checkpoints of TensorFlow's first Saver (SaverDef.V1), which
// Cairn does not read. Each file is one sorted table with the values in it:
//
//   ""                     SavedTensorSlices: field 1 (meta) describes all tensors of the file
//   name and slice         SavedTensorSlices: field 2 (data) has the values
//
// The files are <prefix>, or <prefix>-00000-of-00002 and so on. A current index is such a table,
// too; its first value is a BundleHeaderProto, which begins with a number.
#pragma once

#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>

#include <string>

namespace cairn::inline v0 {

bool is_v1_checkpoint(const File& file);
// Throws unimplemented if `path` is such a file, or the prefix of such files.
void refuse_v1_checkpoint(const FileTree& tree, const std::string& path);

}  // namespace cairn::inline v0
