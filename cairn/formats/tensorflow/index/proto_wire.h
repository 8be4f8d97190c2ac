// proto_wire.h -- protobuf's wire format, for the few small messages in a TensorFlow index. A
// message is a sequence of fields, each a varint of (number << 3 | type) and a value. The reader
// has no schema, allocates nothing, and leaves it to the caller to skip unknown fields.
#pragma once

#include <cairn/base/byte_io.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Reads one message, field by field:
//
//   for (ProtoReader in(bytes); in.next();)
//     if (in.number() == 2) shape = parse_shape(in.message());
class ProtoReader {
 public:
  explicit ProtoReader(ByteView message) : in_(message) {}

  // Moves to the next field; returns false at the end. Throws data_loss, naming the byte, for a
  // malformed field.
  bool next() {
    if (in_.at_end()) return false;
    const std::size_t start = in_.offset();
    const std::uint64_t tag = in_.varint(0xffffffffU);
    number_ = static_cast<std::uint32_t>(tag >> 3U);
    type_ = static_cast<std::uint8_t>(tag & 7U);
    if (number_ == 0) ByteReader::fail("a field has number 0", start);
    switch (type_) {
      case kVarint:
        integer_ = in_.varint();
        return true;
      case kFixed64:
        integer_ = in_.u64();
        return true;
      case kFixed32:
        integer_ = in_.u32();
        return true;
      case kBytes:
        bytes_ = in_.take(in_.varint());
        return true;
      default:
        ByteReader::fail(
            "field " + std::to_string(number_) + " has wire type " + std::to_string(type_), start);
    }
  }

  [[nodiscard]] std::uint32_t number() const { return number_; }
  // The value of the current field. Throws data_loss if the field has another type.
  [[nodiscard]] std::int64_t integer() const {
    return static_cast<std::int64_t>(expect(kVarint, integer_));
  }
  [[nodiscard]] std::uint32_t fixed32() const {
    return static_cast<std::uint32_t>(expect(kFixed32, integer_));
  }
  [[nodiscard]] ByteView message() const { return expect(kBytes, bytes_); }
  [[nodiscard]] std::string_view text() const { return as_text(message()); }
  // Calls f for each integer of a repeated field, which may hold one integer or a packed run.
  template <class F>
  void integers(F f) const {
    if (type_ == kVarint) return f(static_cast<std::int64_t>(integer_));
    for (ByteReader packed(message()); !packed.at_end();)
      f(static_cast<std::int64_t>(packed.varint()));
  }

 private:
  static constexpr std::uint8_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

  template <class T>
  T expect(std::uint8_t type, T value) const {
    if (type_ != type)
      throw Error(Code::kDataLoss, "field " + std::to_string(number_) + " has wire type " +
                                       std::to_string(type_) + ", expected " +
                                       std::to_string(type));
    return value;
  }

  ByteReader in_;
  std::uint32_t number_ = 0;
  std::uint8_t type_ = 0;
  std::uint64_t integer_ = 0;
  ByteView bytes_;
};

// Writes fields as proto3 does: a field with its default value is omitted.
class ProtoWriter {
 public:
  ProtoWriter& integer(std::uint32_t number, std::int64_t value) {
    return value != 0 ? present(number, value) : *this;
  }
  // Writes a member of a oneof, even if it is 0.
  ProtoWriter& present(std::uint32_t number, std::int64_t value) {
    out_.varint(number << 3U).varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoWriter& fixed32(std::uint32_t number, std::uint32_t value) {
    if (value != 0) out_.varint(number << 3U | 5U).u32(value);
    return *this;
  }
  // Writes a message that is present, even if it is empty.
  ProtoWriter& message(std::uint32_t number, ByteView value) {
    out_.varint(number << 3U | 2U).varint(value.size()).bytes(value);
    return *this;
  }
  ProtoWriter& text(std::uint32_t number, std::string_view value) {
    return value.empty() ? *this : message(number, as_bytes(value));
  }
  [[nodiscard]] ByteView view() const { return out_.view(); }
  [[nodiscard]] Bytes take() && { return std::move(out_).take(); }

 private:
  ByteWriter out_;
};

}  // namespace cairn::inline v0
