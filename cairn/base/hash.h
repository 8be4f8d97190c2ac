// hash.h -- 64-bit hashes of an integer or of bytes.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>

namespace cairn::inline v0 {

// One step of splitmix64: every bit of the result depends on every bit of x.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

// FNV-1a of the bytes, continued from `hash`. It does not resist deliberate collisions.
inline std::uint64_t fnv1a(ByteView bytes, std::uint64_t hash = 0xcbf29ce484222325U) {
  for (const std::byte b : bytes)
    hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3U;
  return hash;
}

}  // namespace cairn::inline v0
