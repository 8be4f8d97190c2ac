// check_codec.h -- checks the properties that every encode/decode pair must have.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>
#include <gtest/gtest.h>

#include "tests/support/damage.h"

namespace cairn::testing {

enum class Guard {
  // No checksum covers the bytes: a flipped bit may decode to another value, but it must cause
  // nothing worse.
  kNone,
  kChecksum,  // a checksum covers every byte: the decoder must detect each flipped bit
};

// Checks the round trip, that a value has one encoding, that every truncation is rejected, and that
// every flipped bit is detected or at least handled safely.
template <class Value, class Encode, class Decode>
void check_codec(const Value& value, Encode encode, Decode decode, Guard guard) {
  const Bytes good = encode(value);
  const Value back = decode(ByteView(good));
  EXPECT_EQ(back, value) << "round trip";
  EXPECT_EQ(encode(back), good) << "one value, one spelling";
  for_each_truncation(good, [&](ByteView bad, const std::string& what) {
    EXPECT_THROW(decode(bad), Error) << what;
  });
  for_each_bit_flip(good, [&](ByteView bad, const std::string& what) {
    if (guard == Guard::kChecksum) {
      EXPECT_THROW(decode(bad), Error) << what;
    } else {
      try {
        decode(bad);
      } catch (const Error&) {  // as good as decoding to another value
      }
    }
  });
}

}  // namespace cairn::testing
