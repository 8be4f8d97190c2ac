// raw_verify.h -- checksums of arrays that lie raw in files, and verification of all their bytes.
#pragma once

#include <cairn/base/verify_part.h>
#include <cairn/base/work_partition.h>
#include <cairn/checkpoint.h>
#include <cairn/formats/raw/raw_read.h>

#include <cstdint>
#include <vector>

namespace cairn::inline v0 {

// Computes the checksum of an array's runs as they are in its files, with several threads: the one
// that the array has, or CRC-32. Uses at most `memory` bytes, but at least one piece of 8 MiB.
std::uint32_t checksum_of(Executor& executor, const std::vector<File>& files, const RawArray& array,
                          std::uint64_t memory);

// Throws data_loss unless `of_array`, the computed checksum of the array's bytes, matches the
// stored one.
void check_checksum(const RawArray& array, std::uint32_t of_array);

// Reads the bytes and throws data_loss unless their checksum matches; does nothing if that was done
// before, or if they have no checksum.
void check_common(Executor& executor, const std::vector<File>& files, const CommonBytes& shared,
                  std::uint64_t memory);

// The slices to verify, their tensors and their files. Borrows all of them. In the parts and in
// between, CheckedArray::tensor is the index of a slice.
struct RawContents {
  std::span<const TensorInfo> tensors;
  const std::vector<RawSlice>& slices;
  const std::vector<File>& files;
  const std::vector<Finding>& notes;  // found while opening
  Executor& executor;
  std::uint64_t memory;  // the most bytes that are in use for reading, but at least one piece

  [[nodiscard]] const TensorInfo& tensor(std::size_t slice) const {
    return tensors[slices[slice].tensor];
  }
};
// Verifies one share of the bytes. Only share 0 reports what concerns the checkpoint as a whole.
VerifyPart verify_raw(const RawContents& contents, WorkShare share, const ProgressFn& progress);
// Combines the parts of all shares into one report and compares the checksums of the arrays.
VerifyReport join_raw(const RawContents& contents, std::vector<VerifyPart> parts);

}  // namespace cairn::inline v0
