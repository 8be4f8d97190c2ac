// tensor_source.h -- tensors to be written to a file, whose bytes are fetched a buffer at a time.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace cairn {

// One tensor to be written.
struct TensorSource {
  std::string name;
  DType dtype = DType::kUint8;
  Shape shape;
  // Where a large tensor is best cut into pieces: at multiples of this many bytes (its rows of
  // stored chunks), so that no chunk is decoded twice. 0: anywhere between elements. A hint: one
  // that does not fit the buffer may be ignored.
  std::uint64_t cut = 0;
};
// A run of the C-order, little-endian bytes of sources[tensor], as long as `out`; begins and ends
// between elements.
struct TensorPiece {
  // index into the sources as they were passed, whatever the order of writing
  std::size_t tensor = 0;
  std::uint64_t offset = 0;
  MutableByteView out;
  // Only where a writer cuts tensors (write_tensorflow with a sharding callback): the part of the
  // tensor whose bytes these are a run of.
  const Box* part = nullptr;
};
// Fills every piece. Called with as many consecutive pieces as fit the writer's buffer (thousands
// of small tensors, or part of a large one), in the order of writing, each byte exactly once; never
// from two threads at once.
using FetchFn = std::function<void(std::span<const TensorPiece> pieces)>;
// For tensors that are all in memory, in the order of the sources. What the views refer to outlives
// the function.
FetchFn fetch_from(std::vector<ArrayView> arrays);

}  // namespace cairn
