// same_bytes.h -- compares two memory blocks, or two arrays, byte for byte.
#pragma once

#include <cairn/types.h>

#include <cstring>

namespace cairn::testing {

// In an unoptimised test, a loop over the elements would take longer than the code under test.
inline bool same_bytes(ByteView a, ByteView b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}
inline bool same_array(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && same_bytes(a.bytes(), b.bytes());
}

}  // namespace cairn::testing
