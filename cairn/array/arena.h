// arena.h -- allocates memory for many arrays. Small arrays share blocks that are large enough for
// huge pages. Ten thousand arrays of 4 KiB then cost twenty page faults instead of ten thousand,
// and arrays of 1 MiB are filled in half of the time.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Allocates arrays. An array in a shared block keeps the whole block alive, which has at most
// kBlock bytes.
class ArrayArena {
 public:
  static constexpr std::size_t kBlock = std::size_t{16} << 20U;
  // Arrays of this size get memory of their own, which has at least one huge page.
  static constexpr std::size_t kLarge = std::size_t{2} << 20U;

  // Announces an array of `nbytes` bytes. The arrays are announced in the order in which they are
  // allocated later, so that blocks have no unused end.
  void expect(std::uint64_t nbytes);

  // Returns an array of uninitialised memory, and a view for filling it before the array is shared.
  std::pair<Array, MutableArrayView> allocate(DType dtype, std::size_t element_size, Shape shape);

 private:
  // Makes the next block that is expected, of at least `size` bytes.
  void begin_block(std::size_t size);

  std::vector<std::size_t> expected_;  // the sizes of the blocks
  std::size_t next_ = 0;               // the next one of them
  std::shared_ptr<Buffer> block_;
  std::size_t used_ = 0;  // bytes of block_ that are in use
};

}  // namespace cairn::inline v0
