// stream.h -- reads runs of a tensor's C-order bytes as boxes that a reader understands, however
// large the tensor is.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/types.h>

#include <cstdint>
#include <vector>

namespace cairn::inline v0 {

// The unit for cutting the elements of `box` into runs of about `most` elements at most: cut at
// multiples of the result.
// This is a row of stored chunks along the first dimension that has more than one element, so that
// no chunk is decoded twice. If that is too much, it is the longest row of elements that is not.
// At least 1.
std::int64_t cut_elements(const TensorInfo& tensor, const Box& box, std::int64_t most);

// Reads runs of tensors, most of them together as one plan. Boxes of a run inside one large chunk
// are read one after another, because the chunk's decoder only moves forwards.
class RunReader {
 public:
  explicit RunReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  // Adds the elements of `box` from `begin` on, to be read into the contiguous `out`.
  void add(std::size_t index, const Box& box, std::int64_t begin, MutableByteView out);
  // Performs all reads that were added.
  void read();

 private:
  const Checkpoint& checkpoint_;
  std::vector<ReadRequest> together_;
  std::vector<ReadRequest> in_order_;
};

}  // namespace cairn::inline v0
