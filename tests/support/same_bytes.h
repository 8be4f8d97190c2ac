// same_bytes.h -- whether two stretches of memory, or two arrays, hold the same.
#pragma once

#include <cairn/types.h>

#include <cstring>

namespace cairn::testing {

// A loop over elements, in a test that is not optimised, takes longer than what is under test.
inline bool same_bytes(ByteView a, ByteView b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}
inline bool same_array(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && same_bytes(a.bytes(), b.bytes());
}

}  // namespace cairn::testing
