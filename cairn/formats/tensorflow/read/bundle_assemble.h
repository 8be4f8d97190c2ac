// bundle_assemble.h -- makes a checkpoint of a checked index and the data files.
#pragma once

#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/formats/tensorflow/read/bundle_checkpoint.h>
#include <cairn/formats/tensorflow/read/bundle_locate.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>

#include <memory>

namespace cairn::inline v0 {

// Opens the data files, and checks only that they exist and are long enough. What is not there is
// lost in the tensors that need it.
std::unique_ptr<BundleCheckpoint> assemble_bundle(const FileTree& tree, const BundlePlace& place,
                                                  File index_file, BundleIndex index,
                                                  const OpenOptions& options);

}  // namespace cairn::inline v0
