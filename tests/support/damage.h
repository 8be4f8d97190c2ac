// damage.h -- malformed inputs, made by damaging a good input: every truncation, every bit flip,
// and tables of named damages.
#pragma once

#include <cairn/base/checksum.h>
#include <cairn/error.h>
#include <cairn/types.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <span>
#include <string>

namespace cairn::testing {

// A damage, and the error that the decoder must report: its code and a part of its message.
struct Damage {
  std::string name;
  std::function<void(Bytes&)> apply;
  Code code = Code::kDataLoss;
  std::string expect;
};

inline Bytes with_bit_flipped(ByteView good, std::size_t bit) {
  Bytes bad(good.begin(), good.end());
  bad[bit / 8] ^= std::byte{1} << (bit % 8);
  return bad;
}

// Calls check(bytes, what) with every proper prefix of `good`, shortest first.
inline void for_each_truncation(ByteView good,
                                const std::function<void(ByteView, const std::string&)>& check) {
  for (std::size_t n = 0; n < good.size(); ++n) {
    // A separate copy, so that a sanitizer detects any read beyond the end.
    const Bytes bad(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n));
    check(bad, "truncated to " + std::to_string(n) + " bytes");
  }
}

// Calls check(bytes, what) with every single bit of `good` flipped.
inline void for_each_bit_flip(ByteView good,
                              const std::function<void(ByteView, const std::string&)>& check) {
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit)
    check(with_bit_flipped(good, bit),
          "bit " + std::to_string(bit % 8) + " of byte " + std::to_string(bit / 8) + " flipped");
}

// Applies each damage to a copy of `good`. decode(ByteView) must throw an Error with the expected
// code and text.
template <class Decode>
void check_damages(ByteView good, std::span<const Damage> table, Decode decode) {
  EXPECT_NO_THROW(decode(good)) << "the undamaged input";
  for (const Damage& damage : table) {
    SCOPED_TRACE(damage.name);
    Bytes bad(good.begin(), good.end());
    damage.apply(bad);
    try {
      decode(ByteView(bad));
      ADD_FAILURE() << "was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(code_name(e.code()), code_name(damage.code)) << e.message();
      EXPECT_NE(e.message().find(damage.expect), std::string::npos) << e.message();
    }
  }
}

// Edits bytes in place: overwrites an integer (little-endian), inserts bytes, or erases them.
template <class T>
void put_at(Bytes& bytes, std::size_t offset, T value) {
  ASSERT_LE(offset + sizeof(T), bytes.size());
  std::memcpy(&bytes[offset], &value, sizeof(T));
}
inline void insert_at(Bytes& bytes, std::size_t offset, ByteView more) {
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(offset), more.begin(), more.end());
}
inline void erase_at(Bytes& bytes, std::size_t offset, std::size_t count) {
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
  bytes.erase(first, first + static_cast<std::ptrdiff_t>(count));
}
// Sets the last four bytes to the crc32c of all bytes before them, so that damage passes the
// checksum and reaches the code behind it.
inline void reseal_crc32c(Bytes& bytes) {
  ASSERT_GE(bytes.size(), 4U);
  put_at(bytes, bytes.size() - 4, crc32c(ByteView(bytes).first(bytes.size() - 4)));
}

}  // namespace cairn::testing
