// raw_view.h -- views of arrays in place: memory mappings of a reader's files.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/raw/raw_read.h>
#include <cairn/io/file.h>

#include <memory>
#include <mutex>
#include <vector>

namespace cairn::inline v0 {

// Maps files on first use. Safe to use from many threads.
class RawMaps {
 public:
  // files: the files to map. They must outlive this object and must not change.
  explicit RawMaps(const std::vector<File>& files) : files_(files), maps_(files.size()) {}

  // The bytes of a run as an array of `info`; maps the file on first use. Returns nullopt if the
  // elements are not aligned for use in place, if the file has been truncated, or if it is one of
  // a store.
  [[nodiscard]] std::optional<Array> view(const TensorInfo& info, const RawRun& run) const;

 private:
  const std::vector<File>& files_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const MappedFile>> maps_;  // parallel to files_
};

}  // namespace cairn::inline v0
