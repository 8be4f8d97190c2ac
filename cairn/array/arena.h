// arena.h -- memory for many arrays at once: small ones lie side by side in shared blocks, which
// are large enough for huge pages. Ten thousand arrays of 4 KiB then cost twenty page faults and
// not ten thousand.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace cairn {

// An array that shares its block keeps the whole block alive: at most kBlock bytes.
class ArrayArena {
 public:
  static constexpr std::size_t kBlock = std::size_t{16} << 20U;
  // larger arrays have memory of their own
  static constexpr std::size_t kSmall = std::size_t{256} << 10U;

  // What an array takes of the shared blocks; 0 for one with memory of its own.
  static std::uint64_t shared_bytes(std::uint64_t nbytes);

  // `expected`: the sum of shared_bytes of all arrays to come, so that the last block is no larger
  // than it need be.
  explicit ArrayArena(std::uint64_t expected) : expected_(expected) {}

  // Uninitialised memory, and where to fill it in before the array is shared.
  std::pair<Array, MutableArrayView> allocate(DType dtype, std::size_t element_size, Shape shape);

 private:
  std::uint64_t expected_;
  std::shared_ptr<Buffer> block_;
  std::size_t used_ = 0;  // of block_
};

}  // namespace cairn
