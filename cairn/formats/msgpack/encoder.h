// encoder.h -- a tree as the msgpack of flax or Orbax (tree/msgpack.h draws it), planned before a
// byte is written: heads, texts and small values in one buffer, large ones where they are, in
// memory or yet to be fetched.
#pragma once

#include <cairn/msgpack.h>
#include <cairn/tensor_source.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn {

// A run of the encoded bytes.
struct MsgpackRun {
  enum class Place : std::uint8_t { kBuffer, kMemory, kSource };
  Place place = Place::kBuffer;
  const std::byte* data = nullptr;  // kMemory: borrowed from the tree
  std::size_t source = 0;           // kSource: index into the sources
  std::uint64_t offset = 0;         // in the buffer, or in the source's bytes
  std::uint64_t size = 0;
};

struct MsgpackPlan {
  Bytes buffer;
  std::vector<MsgpackRun> runs;                                // one behind the other
  std::uint64_t size = 0;                                      // of all runs
  [[nodiscard]] ByteView bytes(const MsgpackRun& run) const {  // kBuffer and kMemory
    return {run.place == MsgpackRun::Place::kMemory ? run.data : buffer.data() + run.offset,
            run.size};
  }
};

// Throws invalid_argument, naming the leaf, for what msgpack_serialize refuses. Borrows from
// `tree`.
MsgpackPlan plan_msgpack(const Tree& tree, std::span<const TensorSource> sources,
                         const MsgpackOptions& options);

}  // namespace cairn
