// encoder.h -- plans how a tree is encoded as the msgpack of flax or Orbax (tree/msgpack/msgpack.h
// draws the format) before any byte is written. Heads, strings and small values go into one buffer.
// Large values stay where they are: in memory, or in a source that is fetched later.
#pragma once

#include <cairn/msgpack.h>
#include <cairn/tensor_source.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// One run of the encoded bytes, and where they come from.
struct MsgpackRun {
  // kBuffer: the plan's buffer; kMemory: the tree; kSource: fetched later
  enum class Place : std::uint8_t { kBuffer, kMemory, kSource };
  Place place = Place::kBuffer;
  const std::byte* data = nullptr;  // kMemory: the bytes, borrowed from the tree
  std::size_t source = 0;           // kSource: the index into the sources
  std::uint64_t offset = 0;  // kBuffer: where in the buffer; kSource: where in the source's bytes
  std::uint64_t size = 0;
};

// The whole encoding: its runs, and the buffer that some of them refer to.
struct MsgpackPlan {
  Bytes buffer;
  std::vector<Array> gathered;   // sharded arrays of the tree, whose elements some runs are
  std::vector<MsgpackRun> runs;  // in the order of the file, without gaps
  std::uint64_t size = 0;        // the bytes of all runs
  [[nodiscard]] ByteView bytes(const MsgpackRun& run) const {  // for kBuffer and kMemory only
    return {run.place == MsgpackRun::Place::kMemory ? run.data : buffer.data() + run.offset,
            run.size};
  }
};

// Plans the encoding of `tree`. The plan borrows from `tree`. Throws invalid_argument, naming the
// leaf, for what msgpack_serialize refuses.
MsgpackPlan plan_msgpack(const Tree& tree, std::span<const TensorSource> sources,
                         const MsgpackOptions& options);

}  // namespace cairn::inline v0
