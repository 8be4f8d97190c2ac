// verify_part.h -- what one of several processes found when they verified a checkpoint together.
#pragma once

#include <cairn/verify_report.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::inline v0 {

// Maximum number of findings listed per array. More would not help: the array is lost.
inline constexpr std::size_t kMostFindings = 1000;

// Findings for one array. With several processes, each checks some of its chunks, in consecutive
// ranges.
struct CheckedArray {
  std::size_t tensor = 0;               // index into the checkpoint's tensors
  std::vector<Finding> findings;        // in the order of its chunks
  std::uint64_t chunks = 0, bytes = 0;  // chunks decoded, bytes read
  bool unprotected = false;             // no checksum covers at least one chunk
  std::uint32_t crc = 0;  // of `crc_bytes` bytes, where the format has a checksum of the whole
  std::uint64_t crc_bytes = 0;
};
// The result of one process. The first process also checks everything outside the arrays; every
// process checks a share of the arrays.
struct VerifyPart {
  VerifyReport around;               // findings outside the arrays
  std::vector<CheckedArray> arrays;  // arrays of which this process checked a part, in tensor order
};

}  // namespace cairn::inline v0
