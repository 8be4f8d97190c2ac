// piece_writer.h -- streams tensors into files in bounded memory: it fetches into one buffer while
// it writes the other.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/io/byte_target.h>
#include <cairn/io/file.h>
#include <cairn/tensor_source.h>

#include <cstdint>
#include <functional>
#include <span>

namespace cairn::inline v0 {

// Where the bytes of a tensor, or of a part of it, go.
struct Placement {
  std::size_t tensor = 0;  // index into the sources
  ByteTarget* file = nullptr;
  std::uint64_t offset = 0;  // of the first byte, in the file
  std::uint64_t nbytes = 0;  // as fetched
  std::uint64_t begin = 0;   // the first byte to write, counted in the tensor's bytes as fetched
  std::size_t element_size = 1;
  std::uint64_t cut = 0;    // TensorSource::cut
  std::uint64_t group = 0;  // TensorSource::group
  bool packed = false;      // written two 4-bit elements a byte, the first one in the low bits
};

// Options of write_pieces.
struct PieceWriterOptions {
  Executor* executor = nullptr;                    // null: the default one of the process
  std::uint64_t memory = std::uint64_t{1} << 30U;  // bound for both buffers together
  ProgressFn progress;
  // Called for every run of bytes before it is written, from many threads: (index into placements,
  // offset, bytes).
  std::function<void(std::size_t, std::uint64_t, ByteView)> observe;
};

// Fetches and writes all placements in their order, but those of a group together, in buffers that
// use the whole memory, if all targets take any order. A target that does not take any order gets
// the bytes from front to back, if its placements are in the order of their offsets. Throws what
// `fetch` or the files throw.
void write_pieces(std::span<const Placement> placements, const FetchFn& fetch,
                  const PieceWriterOptions& options);

}  // namespace cairn::inline v0
