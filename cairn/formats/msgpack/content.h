// content.h -- the contents of extension objects: an array's bytes up to its elements, timestamps.
#pragma once

#include <cairn/formats/msgpack/encoder.h>
#include <cairn/msgpack.h>
#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace cairn::inline v0 {

// An array and where its C-order bytes are. It borrows the name and the shape.
struct MsgpackArray {
  std::string_view dtype_name;
  std::uint64_t element_size = 1;
  std::span<const std::int64_t> shape;
  MsgpackRun run;

  static MsgpackArray of(DType dtype, std::span<const std::int64_t> shape, const MsgpackRun& run) {
    return {cairn::dtype_name(dtype), dtype_size(dtype), shape, run};
  }
};

inline MsgpackRun in_memory(ByteView bytes) {
  return {.place = MsgpackRun::Place::kMemory, .data = bytes.data(), .size = bytes.size()};
}

// The array of a NumpyArray leaf whose bytes are at `run`. Throws invalid_argument for a leaf that
// NumPy cannot have, and for objects, which both packages refuse.
MsgpackArray numpy_part(const NumpyArray& array, const MsgpackRun& run);

// The bytes before the elements in the array's extension object: [shape, dtype name, bytes].
Bytes array_front(const MsgpackArray& array);

// The content of a timestamp, in its shortest form. Throws invalid_argument for more than 999999999
// nanoseconds.
Bytes timestamp_content(const MsgpackTimestamp& time);

}  // namespace cairn::inline v0
