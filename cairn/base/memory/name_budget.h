// name_budget.h -- the limit for names that a file stores without the bytes they share with their
// neighbours, as OCDBT databases and TensorFlow's indexes do.
#pragma once

#include <cairn/error.h>

#include <cstdint>
#include <string>

namespace cairn::inline v0 {

// Throws unimplemented if names of `names` bytes, expanded from `stored` bytes of files, are more
// than Cairn holds in memory. A million arrays with names of a hundred bytes stay below the free
// part of the limit, however well a database compresses them. A small file of hostile names does
// not get far beyond it. TensorFlow stores every 16th name in full.
inline void check_name_budget(std::uint64_t names, std::uint64_t stored) {
  constexpr std::uint64_t kFreeBytes = std::uint64_t{256} << 20U;
  constexpr std::uint64_t kBytesPerByte = 32;
  if (names <= kFreeBytes || (names - kFreeBytes) / kBytesPerByte <= stored) return;
  throw Error(Code::kUnimplemented, "its names take more than " +
                                        std::to_string(kFreeBytes + kBytesPerByte * stored) +
                                        " bytes of memory, the limit of Cairn for " +
                                        std::to_string(stored) + " stored bytes of names");
}

}  // namespace cairn::inline v0
