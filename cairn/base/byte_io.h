// byte_io.h -- reads and writes integers and byte runs. Every read is bounds-checked, and errors
// report the offset.
#pragma once

#include <cairn/base/byte_order.h>
#include <cairn/bytes.h>
#include <cairn/error.h>

#include <limits>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Reads untrusted bytes from front to back. Numbers are little-endian; those of functions named _be
// are big-endian. Every failure is an Error(kDataLoss) with the offset.
class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] std::size_t remaining() const { return bytes_.size() - offset_; }
  [[nodiscard]] bool at_end() const { return remaining() == 0; }

  std::uint8_t u8() { return std::to_integer<std::uint8_t>(take(1)[0]); }
  std::uint16_t u16() { return fixed<std::uint16_t>(); }
  std::uint32_t u32() { return fixed<std::uint32_t>(); }
  std::uint64_t u64() { return fixed<std::uint64_t>(); }
  std::int32_t i32() { return fixed<std::int32_t>(); }
  std::uint16_t u16_be() { return __builtin_bswap16(u16()); }
  std::uint32_t u32_be() { return __builtin_bswap32(u32()); }
  std::uint64_t u64_be() { return __builtin_bswap64(u64()); }

  // Reads a LEB128 integer, which must be <= max. Over-long encodings are accepted up to 5 bytes
  // for max < 2^32, otherwise up to 10 bytes.
  std::uint64_t varint(std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) {
    const int max_bytes = max <= 0xffffffffU ? 5 : 10;
    const std::size_t start = offset_;
    std::uint64_t value = 0;
    for (int i = 0; i < max_bytes; ++i) {
      const std::uint8_t b = u8();
      if (i == 9 && b > 1) break;
      value |= static_cast<std::uint64_t>(b & 0x7fU) << (7 * i);
      if ((b & 0x80U) == 0) {
        if (value > max)
          fail("varint " + std::to_string(value) + " exceeds " + std::to_string(max), start);
        return value;
      }
    }
    fail("varint is too long", start);
  }

  // Returns the next n bytes as a view of the input.
  ByteView take(std::uint64_t n) {
    if (n > remaining())
      fail("unexpected end of data: " + std::to_string(n) + " bytes wanted, " +
               std::to_string(remaining()) + " left",
           offset_);
    const ByteView taken = bytes_.subspan(offset_, n);
    offset_ += n;
    return taken;
  }
  std::string_view text(std::uint64_t n) { return as_text(take(n)); }

  // Throws data_loss if bytes are left over.
  void finish() const {
    if (!at_end())
      fail("end of data expected, " + std::to_string(remaining()) + " bytes are left over",
           offset_);
  }

  // Throws data_loss with `what` and the offset.
  [[noreturn]] static void fail(const std::string& what, std::size_t offset) {
    throw Error(Code::kDataLoss, what + " at byte " + std::to_string(offset));
  }

 private:
  template <class T>
  T fixed() {
    return load_little_endian<T>(take(sizeof(T)));
  }

  ByteView bytes_;
  std::size_t offset_ = 0;
};

// Appends integers and bytes to a buffer that it owns. take() moves the buffer out.
class ByteWriter {
 public:
  ByteWriter& u8(std::uint8_t v) { return fixed(v); }
  ByteWriter& u16(std::uint16_t v) { return fixed(v); }
  ByteWriter& u32(std::uint32_t v) { return fixed(v); }
  ByteWriter& u64(std::uint64_t v) { return fixed(v); }
  ByteWriter& i32(std::int32_t v) { return fixed(v); }
  ByteWriter& u32_be(std::uint32_t v) { return fixed(__builtin_bswap32(v)); }
  ByteWriter& varint(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7U) u8(static_cast<std::uint8_t>(v | 0x80U));
    return u8(static_cast<std::uint8_t>(v));
  }
  ByteWriter& bytes(ByteView v) {
    out_.insert(out_.end(), v.begin(), v.end());
    return *this;
  }
  ByteWriter& text(std::string_view v) { return bytes(as_bytes(v)); }

  [[nodiscard]] std::size_t size() const { return out_.size(); }
  [[nodiscard]] ByteView view() const { return out_; }
  [[nodiscard]] Bytes take() && { return std::move(out_); }

 private:
  template <class T>
  ByteWriter& fixed(T v) {
    const T stored = little_endian(v);
    const auto* p = reinterpret_cast<const std::byte*>(&stored);
    out_.insert(out_.end(), p, p + sizeof(T));
    return *this;
  }

  Bytes out_;
};

}  // namespace cairn::inline v0
