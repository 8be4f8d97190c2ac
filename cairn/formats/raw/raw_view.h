// raw_view.h -- arrays in place: the mappings of a reader's files.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/raw/raw_read.h>
#include <cairn/io/file.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace cairn {

// Safe to use from many threads.
class RawMaps {
 public:
  // files: which may be mapped; must outlive this and stay as they are.
  explicit RawMaps(const std::vector<File>& files) : files_(files), maps_(files.size()) {}

  // The bytes of a run, whose file is mapped when one of it is first wanted, as an array of `info`;
  // nullopt where a program could not look at its elements in place, or the file has been cut
  // short.
  [[nodiscard]] std::optional<Array> view(const TensorInfo& info, const RawRun& run) const;

 private:
  const std::vector<File>& files_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const MappedFile>> maps_;  // beside files_
};

}  // namespace cairn
