// bundle_writer.h -- writes a TensorFlow checkpoint (TensorBundle): data files according to a plan,
// then the index that completes it.
//
//   <prefix>.data-00000-of-00002   values, one after another, in the order of the plan
//   <prefix>.index                 their locations (bundle_index.h); appears last
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed/process_group.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/tensor_source.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// A tensor, or the slice of one that the caller has.
struct BundleSource {
  std::string key;
  std::int32_t type = 0;                  // TensorFlow's number of the type
  Shape shape;                            // of what the caller has
  std::uint64_t cut = 0;                  // as in TensorSource
  std::vector<std::string> strings = {};  // all strings of a string tensor
  Shape full_shape = {};                  // of the tensor that this is a slice of
  // where the slice begins in it; nullopt: this is the whole tensor
  std::optional<std::vector<std::int64_t>> origin = {};
};
// The unit of storage: a source, or a part of it in its own coordinates.
struct BundlePiece {
  std::size_t source = 0;
  std::optional<Box> part = {};
};
// The pieces of each data file.
using BundlePlan = std::vector<std::vector<BundlePiece>>;

// Options of write_bundle.
struct BundleWriteOptions {
  IfExists if_exists = IfExists::kFail;  // kFail refuses an existing checkpoint at the prefix
  Resources resources = {};
  ProgressFn progress = {};
};

// Writes the bundle, whose prefix is the path of the place; each process writes its share. Returns
// the paths: the data files, then the index. After the new checkpoint is in place, it removes the
// files of the replaced one that the new one lacks. Throws invalid_argument for two sources with
// the same key, and for a number of strings that differs from the shape.
std::vector<std::string> write_bundle(const OutputPlace& place,
                                      const std::vector<BundleSource>& sources,
                                      const BundlePlan& plan, const FetchFn& fetch,
                                      const distributed::ProcessGroup& group,
                                      const BundleWriteOptions& options);

}  // namespace cairn::inline v0
