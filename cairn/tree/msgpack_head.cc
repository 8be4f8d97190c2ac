// msgpack_head.cc -- the table of msgpack's first bytes.
#include <cairn/tree/msgpack_head.h>

#include <fmt/format.h>

#include <bit>

namespace cairn {
namespace {

MsgpackHead sized(MsgpackType type, std::uint64_t length) { return {.type = type, .length = length}; }
MsgpackHead unsigned_int(std::uint64_t v) { return {.type = MsgpackType::kUint, .length = v}; }
MsgpackHead signed_int(std::int64_t v) {
  return v >= 0 ? unsigned_int(static_cast<std::uint64_t>(v)) : MsgpackHead{.type = MsgpackType::kInt, .integer = v};
}

std::uint64_t read_length(ByteReader& in, unsigned log2_bytes) {
  return log2_bytes == 0 ? in.u8() : log2_bytes == 1 ? in.u16_be() : in.u32_be();
}

MsgpackHead read_ext(ByteReader& in, std::uint64_t length) {
  MsgpackHead head = sized(MsgpackType::kExt, length);
  head.ext = static_cast<std::int8_t>(in.u8());
  return head;
}

}  // namespace

MsgpackHead read_msgpack_head(ByteReader& in) {
  const std::size_t at = in.offset();
  const std::uint8_t b = in.u8();
  if (b <= 0x7f) return unsigned_int(b);
  if (b <= 0x8f) return sized(MsgpackType::kMap, b & 0x0fU);
  if (b <= 0x9f) return sized(MsgpackType::kArray, b & 0x0fU);
  if (b <= 0xbf) return sized(MsgpackType::kText, b & 0x1fU);
  if (b >= 0xe0) return signed_int(static_cast<std::int8_t>(b));
  switch (b) {
    case 0xc0:
      return {};
    case 0xc2:
    case 0xc3:
      return {.type = MsgpackType::kBool, .truth = b == 0xc3};
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return sized(MsgpackType::kBin, read_length(in, b - 0xc4U));
    case 0xc7:
    case 0xc8:
    case 0xc9:
      return read_ext(in, read_length(in, b - 0xc7U));
    case 0xca:
      return {.type = MsgpackType::kFloat, .number = std::bit_cast<float>(in.u32_be())};
    case 0xcb:
      return {.type = MsgpackType::kFloat, .number = std::bit_cast<double>(in.u64_be())};
    case 0xcc:
      return unsigned_int(in.u8());
    case 0xcd:
      return unsigned_int(in.u16_be());
    case 0xce:
      return unsigned_int(in.u32_be());
    case 0xcf:
      return unsigned_int(in.u64_be());
    case 0xd0:
      return signed_int(static_cast<std::int8_t>(in.u8()));
    case 0xd1:
      return signed_int(static_cast<std::int16_t>(in.u16_be()));
    case 0xd2:
      return signed_int(static_cast<std::int32_t>(in.u32_be()));
    case 0xd3:
      return signed_int(static_cast<std::int64_t>(in.u64_be()));
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      return read_ext(in, std::uint64_t{1} << (b - 0xd4U));
    case 0xd9:
    case 0xda:
    case 0xdb:
      return sized(MsgpackType::kText, read_length(in, b - 0xd9U));
    case 0xdc:
    case 0xdd:
      return sized(MsgpackType::kArray, read_length(in, b - 0xdbU));
    case 0xde:
    case 0xdf:
      return sized(MsgpackType::kMap, read_length(in, b - 0xddU));
    default:
      ByteReader::fail(fmt::format("byte 0x{:02x} begins no msgpack object", b), at);
  }
}

}  // namespace cairn
