// random_bytes.h -- fills memory with bytes that no compressor shrinks, eight at a time: a test is
// not optimised, and a generator called for each byte takes longer than the code under test.
#pragma once

#include <cairn/types.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cairn::testing {

// `mask` is applied to each eight bytes.
inline void fill_random(MutableByteView out, std::uint64_t seed,
                        std::uint64_t mask = ~std::uint64_t{0}) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (std::size_t at = 0; at < out.size(); at += sizeof state) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    const std::uint64_t word = state & mask;
    std::memcpy(&out[at], &word, std::min(sizeof word, out.size() - at));
  }
}

}  // namespace cairn::testing
