// msgpack_head.h -- the first bytes of a msgpack object: its type and its value or length (msgpack.org's specification).
#pragma once

#include <cairn/base/byte_io.h>

#include <cstdint>

namespace cairn {

// What a msgpack object begins with, its length or value read.
enum class MsgpackType : std::uint8_t { kNil, kBool, kInt, kUint, kFloat, kText, kBin, kArray, kMap, kExt };
struct MsgpackHead {
  MsgpackType type = MsgpackType::kNil;
  std::uint64_t length = 0;  // bytes, elements or pairs; the value of kUint
  std::int64_t integer = 0;  // the value of kInt
  double number = 0;
  bool truth = false;
  std::int8_t ext = 0;
};

// Reads one; what it announces (bytes, elements) is still to be checked against what is there.
MsgpackHead read_msgpack_head(ByteReader& in);

}  // namespace cairn
