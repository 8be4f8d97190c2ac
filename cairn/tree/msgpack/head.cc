// head.cc -- encodes and decodes msgpack's first bytes.

#include <cairn/tree/msgpack/head.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

namespace cairn::inline v0 {
namespace {

MsgpackHead sized(MsgpackType type, std::uint64_t length) {
  return {.type = type, .length = length};
}
MsgpackHead unsigned_int(std::uint64_t v) { return {.type = MsgpackType::kUint, .length = v}; }

std::uint64_t read_length(ByteReader& in, unsigned log2_bytes) {
  return log2_bytes == 0 ? in.u8() : log2_bytes == 1 ? in.u16_be() : in.u32_be();
}

MsgpackHead read_ext(ByteReader& in, std::uint64_t length) {
  MsgpackHead head = sized(MsgpackType::kExt, length);
  head.ext = static_cast<std::int8_t>(in.u8());
  return head;
}

// Collects a first byte and the big-endian number after it.
class HeadWriter {
 public:
  HeadWriter& first(unsigned byte) { return number(byte, 1); }
  HeadWriter& number(std::uint64_t value, unsigned bytes) {
    for (unsigned i = bytes; i-- > 0;)
      out_.bytes[out_.size++] = static_cast<std::byte>(value >> (8 * i) & 0xffU);
    return *this;
  }
  [[nodiscard]] MsgpackHeadBytes take() const { return out_; }

 private:
  MsgpackHeadBytes out_;
};

// The width of an unsigned number is 2^result bytes.
unsigned log2_width(std::uint64_t v) {
  return v <= 0xff ? 0 : v <= 0xffff ? 1 : v <= 0xffffffffU ? 2 : 3;
}

MsgpackHeadBytes with_number(unsigned first, std::uint64_t value, unsigned log2_bytes) {
  return HeadWriter().first(first + log2_bytes).number(value, 1U << log2_bytes).take();
}

MsgpackHeadBytes encode_negative(std::int64_t v) {
  if (v >= -32) return HeadWriter().first(static_cast<std::uint8_t>(v)).take();
  const unsigned width = v >= INT8_MIN ? 0 : v >= INT16_MIN ? 1 : v >= INT32_MIN ? 2 : 3;
  return with_number(0xd0, static_cast<std::uint64_t>(v), width);
}

MsgpackHeadBytes encode_extension(const MsgpackHead& head) {
  HeadWriter out;
  const bool fixed = head.length <= 16 && std::has_single_bit(head.length);
  if (fixed)
    out.first(0xd4U + static_cast<unsigned>(std::countr_zero(head.length)));
  else
    out.first(0xc7U + log2_width(head.length)).number(head.length, 1U << log2_width(head.length));
  return out.first(static_cast<std::uint8_t>(head.ext)).take();
}

void check_length(const MsgpackHead& head, std::string_view what) {
  if (head.length > 0xffffffffU)
    throw Error(Code::kInvalidArgument,
                fmt::format("{} of length {} is too large: msgpack holds at most 2^32 - 1", what,
                            head.length));
}

}  // namespace

MsgpackHead read_msgpack_head(ByteReader& in) {
  const std::size_t at = in.offset();
  const std::uint8_t b = in.u8();
  if (b <= 0x7f) return unsigned_int(b);
  if (b <= 0x8f) return sized(MsgpackType::kMap, b & 0x0fU);
  if (b <= 0x9f) return sized(MsgpackType::kArray, b & 0x0fU);
  if (b <= 0xbf) return sized(MsgpackType::kText, b & 0x1fU);
  if (b >= 0xe0) return msgpack_integer(static_cast<std::int8_t>(b));
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
      return msgpack_integer(static_cast<std::int8_t>(in.u8()));
    case 0xd1:
      return msgpack_integer(static_cast<std::int16_t>(in.u16_be()));
    case 0xd2:
      return msgpack_integer(static_cast<std::int32_t>(in.u32_be()));
    case 0xd3:
      return msgpack_integer(static_cast<std::int64_t>(in.u64_be()));
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
      ByteReader::fail(fmt::format("byte 0x{:02x} does not start a msgpack object", b), at);
  }
}

MsgpackHeadBytes encode_msgpack_head(const MsgpackHead& head) {
  const unsigned width = log2_width(head.length);
  switch (head.type) {
    case MsgpackType::kNil:
      break;
    case MsgpackType::kBool:
      return HeadWriter().first(head.truth ? 0xc3 : 0xc2).take();
    case MsgpackType::kInt:
      return encode_negative(head.integer);
    case MsgpackType::kUint:
      return head.length <= 0x7f ? HeadWriter().first(static_cast<unsigned>(head.length)).take()
                                 : with_number(0xcc, head.length, width);
    case MsgpackType::kFloat:
      return with_number(0xcb - 3, std::bit_cast<std::uint64_t>(head.number), 3);
    case MsgpackType::kText:
      check_length(head, "a string");
      return head.length < 32
                 ? HeadWriter().first(0xa0U | static_cast<unsigned>(head.length)).take()
                 : with_number(0xd9, head.length, width);
    case MsgpackType::kBin:
      check_length(head, "a bytes object");
      return with_number(0xc4, head.length, width);
    case MsgpackType::kArray:
      check_length(head, "a list");
      return head.length < 16
                 ? HeadWriter().first(0x90U | static_cast<unsigned>(head.length)).take()
                 : with_number(0xdc - 1, head.length, std::max(width, 1U));
    case MsgpackType::kMap:
      check_length(head, "a dict");
      return head.length < 16
                 ? HeadWriter().first(0x80U | static_cast<unsigned>(head.length)).take()
                 : with_number(0xde - 1, head.length, std::max(width, 1U));
    case MsgpackType::kExt:
      check_length(head, "an extension object (an array, or a tuple)");
      return encode_extension(head);
  }
  return HeadWriter().first(0xc0).take();
}

}  // namespace cairn::inline v0
