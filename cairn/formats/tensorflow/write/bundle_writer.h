// bundle_writer.h -- a TensorFlow checkpoint (TensorBundle) put into place: data files as a plan
// says, and the index that makes them one.
//
//   <prefix>.data-00000-of-00002   values, one behind the other, in the order of the plan
//   <prefix>.index                 where they are (bundle_index.h); appears last
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed/process_group.h>
#include <cairn/tensor_source.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn {

// A tensor, or the slice of one that is given.
struct BundleSource {
  std::string key;
  std::int32_t type = 0;                  // TensorFlow's number of it
  Shape shape;                            // of what is given
  std::uint64_t cut = 0;                  // as TensorSource's
  std::vector<std::string> strings = {};  // if it is of strings: all of them
  Shape full_shape = {};                  // of what it is a slice of;
  // where it begins in that; none: it is whole
  std::optional<std::vector<std::int64_t>> origin = {};
};
// What is stored in one place: a source, or a part of it in its own coordinates.
struct BundlePiece {
  std::size_t source = 0;
  std::optional<Box> part = {};
};
// By data file.
using BundlePlan = std::vector<std::vector<BundlePiece>>;

struct BundleWriteOptions {
  IfExists if_exists = IfExists::kFail;  // a checkpoint of that prefix is refused otherwise
  std::uint64_t memory = std::uint64_t{1} << 30U;
  ProgressFn progress = {};
};

// Writes the bundle, of several processes each its share, and returns the files: those with values,
// then the index. Of a checkpoint that is replaced files that the new one does not have are
// removed, once it is in place. Throws invalid_argument for two sources that would have one key,
// and for strings that are not as many as the shape says.
std::vector<std::string> write_bundle(const std::string& prefix,
                                      const std::vector<BundleSource>& sources,
                                      const BundlePlan& plan, const FetchFn& fetch,
                                      const distributed::ProcessGroup& group,
                                      const BundleWriteOptions& options);

}  // namespace cairn
