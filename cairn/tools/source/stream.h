// stream.h -- runs of a tensor's C-order bytes, however large the tensor, as boxes that a reader
// understands.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/types.h>

#include <cstdint>
#include <vector>

namespace cairn {

// Where to cut the elements of `box` into runs of at most about `most`: at multiples of this many.
// A row of stored chunks along the first dimension that has more than one element if that is not
// too much (no chunk is decoded twice then), else the longest row of elements that is not. At least
// 1.
std::int64_t cut_elements(const TensorInfo& tensor, const Box& box, std::int64_t most);

// Reads runs of tensors: most of them together as one plan; but the boxes of a run inside one large
// chunk one after the other, because its decoder walks forwards only.
class RunReader {
 public:
  explicit RunReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  // Elements of `box` from `begin` on, into the contiguous `out`.
  void add(std::size_t index, const Box& box, std::int64_t begin, MutableByteView out);
  // Reads all that was added.
  void read();

 private:
  const Checkpoint& checkpoint_;
  std::vector<ReadRequest> together_;
  std::vector<ReadRequest> in_order_;
};

}  // namespace cairn
