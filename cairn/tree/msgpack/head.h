// head.h -- the head of a msgpack object, that is, its first bytes: its type, and its value or
// length (msgpack.org's specification).
#pragma once

#include <cairn/base/byte_io.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn::inline v0 {

// The type of an object, whichever encoding of it the head uses.
enum class MsgpackType : std::uint8_t {
  kNil,
  kBool,
  kInt,
  kUint,
  kFloat,
  kText,
  kBin,
  kArray,
  kMap,
  kExt
};
// A decoded head.
struct MsgpackHead {
  MsgpackType type = MsgpackType::kNil;
  std::uint64_t length = 0;  // bytes, elements or pairs; for kUint the value
  std::int64_t integer = 0;  // for kInt the value
  double number = 0;
  bool truth = false;
  std::int8_t ext = 0;
};

// flax's extension types, Orbax's tuple, and msgpack's own timestamp.
enum : std::int8_t {
  kMsgpackTimestamp = -1,
  kMsgpackArray = 1,
  kMsgpackComplex = 2,
  kMsgpackNumpyScalar = 3,
  kMsgpackTuple = 4
};
// A timestamp of eight bytes holds its seconds in this many low bits, its nanoseconds above them.
inline constexpr unsigned kTimestampSecondBits = 34;
// The member that marks a map as an array in pieces.
inline constexpr std::string_view kMsgpackChunkMarker = "__msgpack_chunked_array__";

// Reads one head. Throws data_loss for malformed bytes. The caller must check the announced length
// (bytes, elements) against the bytes that remain.
MsgpackHead read_msgpack_head(ByteReader& in);

// An encoded head; it fits without allocation.
struct MsgpackHeadBytes {
  std::array<std::byte, 9> bytes{};
  std::size_t size = 0;
  [[nodiscard]] ByteView view() const { return ByteView(bytes).first(size); }
};
// Encodes a head in its shortest form, as msgpack's packers do; floats always take eight bytes.
// Throws invalid_argument for a length above 2^32 - 1, which msgpack cannot express.
MsgpackHeadBytes encode_msgpack_head(const MsgpackHead& head);

// The head of an integer, which is the whole object.
inline MsgpackHead msgpack_integer(std::int64_t value) {
  if (value < 0) return {.type = MsgpackType::kInt, .integer = value};
  return {.type = MsgpackType::kUint, .length = static_cast<std::uint64_t>(value)};
}

}  // namespace cairn::inline v0
