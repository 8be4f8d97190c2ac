// head.h -- the first bytes of a msgpack object: its type and its value or length (msgpack.org's
// specification).
#pragma once

#include <cairn/base/byte_io.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn {

// What a msgpack object begins with, its length or value read.
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
struct MsgpackHead {
  MsgpackType type = MsgpackType::kNil;
  std::uint64_t length = 0;  // bytes, elements or pairs; the value of kUint
  std::int64_t integer = 0;  // the value of kInt
  double number = 0;
  bool truth = false;
  std::int8_t ext = 0;
};

// flax's extension types, and Orbax's tuple.
enum : std::int8_t {
  kMsgpackArray = 1,
  kMsgpackComplex = 2,
  kMsgpackNumpyScalar = 3,
  kMsgpackTuple = 4
};
// The member that says of a map that it is an array in pieces.
inline constexpr std::string_view kMsgpackChunkMarker = "__msgpack_chunked_array__";

// Reads one; what it announces (bytes, elements) is still to be checked against what is there.
MsgpackHead read_msgpack_head(ByteReader& in);

struct MsgpackHeadBytes {
  std::array<std::byte, 9> bytes{};
  std::size_t size = 0;
  [[nodiscard]] ByteView view() const { return ByteView(bytes).first(size); }
};
// Its shortest spelling, as msgpack's packers write it; floats always take eight bytes. Throws
// invalid_argument for a length of more than 2^32 - 1, which msgpack cannot say.
MsgpackHeadBytes encode_msgpack_head(const MsgpackHead& head);

// An integer's head, which is all of it.
inline MsgpackHead msgpack_integer(std::int64_t value) {
  if (value < 0) return {.type = MsgpackType::kInt, .integer = value};
  return {.type = MsgpackType::kUint, .length = static_cast<std::uint64_t>(value)};
}

}  // namespace cairn
