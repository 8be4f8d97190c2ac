// arena.h -- allocates memory for many arrays. Small arrays share blocks that are large enough for
// huge pages. Ten thousand arrays of 4 KiB then cost twenty page faults instead of ten thousand.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace cairn::inline v0 {

// Allocates arrays. An array in a shared block keeps the whole block alive, which has at most
// kBlock bytes.
class ArrayArena {
 public:
  static constexpr std::size_t kBlock = std::size_t{16} << 20U;
  // larger arrays get memory of their own
  static constexpr std::size_t kSmall = std::size_t{256} << 10U;

  // Returns the bytes that an array takes in the shared blocks; 0 for an array with memory of its
  // own.
  static std::uint64_t shared_bytes(std::uint64_t nbytes);

  // `expected` is the sum of shared_bytes of all arrays to come, so that the last block is not
  // larger than necessary.
  explicit ArrayArena(std::uint64_t expected) : expected_(expected) {}

  // Returns an array of uninitialised memory, and a view for filling it before the array is shared.
  std::pair<Array, MutableArrayView> allocate(DType dtype, std::size_t element_size, Shape shape);

 private:
  std::uint64_t expected_;
  std::shared_ptr<Buffer> block_;
  std::size_t used_ = 0;  // bytes of block_ that are in use
};

}  // namespace cairn::inline v0
