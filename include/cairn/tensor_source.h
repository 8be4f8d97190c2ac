// tensor_source.h -- tensors to be written to a file, whose bytes the writer fetches one buffer at
// a time.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// One tensor to be written.
struct TensorSource {
  std::string name;  // name in the file
  DType dtype = DType::kUint8;
  Shape shape;
  // Preferred split points of a large tensor: multiples of this many bytes (its rows of stored
  // chunks), so that no chunk is decoded twice. 0: any element boundary. A hint: the writer may
  // ignore a value that does not fit its buffer.
  std::uint64_t cut = 0;
  // Sources of one group (not 0) are fetched faster together: they are parts of the same stored
  // chunks. A hint: a writer of local files may write the sources of a group one after another.
  std::uint64_t group = 0;
};
// A run of the C-order, little-endian bytes of sources[tensor]. It begins and ends at element
// boundaries.
struct TensorPiece {
  // Index into the sources as they were passed, whatever the order of writing.
  std::size_t tensor = 0;
  std::uint64_t offset = 0;  // first byte of the run within the tensor (or within `part`)
  MutableByteView out;       // buffer to fill; its size is the length of the run
  // Set only if a writer splits tensors (write_tensorflow with a sharding callback): the part of
  // the tensor that the run belongs to.
  const Box* part = nullptr;
};
// Fills every piece. Each call passes as many consecutive pieces as fit the writer's buffer
// (thousands of small tensors, or part of a large one). Pieces come in the order of writing, each
// byte exactly once. The writer never calls from two threads at once.
using FetchFn = std::function<void(std::span<const TensorPiece> pieces)>;
// A leaf of a tree to be written whose values are fetched when they are needed
// (Tree(SourceLeaf{...})).
struct SourceLeaf {
  // The leaf that the source becomes.
  enum class As : std::uint8_t { kArray, kBytes };
  std::size_t index = 0;  // index into the sources
  As as = As::kArray;     // kBytes: a bytes object made of the source's bytes
};
// A FetchFn for tensors in memory, given in the order of the sources. The arrays behind the views
// must outlive the function.
FetchFn fetch_from(std::vector<ArrayView> arrays);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
