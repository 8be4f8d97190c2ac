// raw_verify.h -- checksums of arrays that lie raw in files, and the check of all their bytes.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/raw/raw_read.h>

#include <cstdint>
#include <vector>

namespace cairn {

// The checksum of an array that has one: of its runs as they are in its files; by several threads.
std::uint32_t checksum_of(Executor& executor, const std::vector<File>& files,
                          const RawArray& array);

// Throws data_loss unless `of_array` is what the array's checksum makes it.
void check_checksum(const RawArray& array, std::uint32_t of_array);

// What is to be checked; refers to what it names.
struct RawContents {
  const std::vector<TensorInfo>& tensors;
  const std::vector<RawArray>& arrays;  // beside tensors
  const std::vector<File>& files;
  const std::vector<Finding>& notes;  // of opening
  Executor& executor;
};
// What lies around the arrays is said by the first share alone.
VerifyPart verify_raw(const RawContents& contents, WorkShare share, const ProgressFn& progress);
VerifyReport join_raw(const RawContents& contents, std::vector<VerifyPart> parts);

}  // namespace cairn
