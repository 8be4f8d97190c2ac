// byte_order.h -- numbers in files are mostly little-endian. Those in memory have the byte order of
// the machine.
#pragma once

#include <cairn/bytes.h>

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace cairn::inline v0 {

inline constexpr bool kBigEndianMachine = std::endian::native == std::endian::big;

// The number that a little-endian file holds as `number`, or the reverse.
template <std::integral T>
constexpr T little_endian(T number) {
  if constexpr (kBigEndianMachine) {
    auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(number);
    std::reverse(bytes.begin(), bytes.end());
    return std::bit_cast<T>(bytes);
  }
  return number;
}

// Returns the little-endian number that `bytes` begin with, wherever they lie. There must be
// sizeof(T) of them.
template <std::integral T>
T load_little_endian(ByteView bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof(T));
  return little_endian(number);
}

template <std::integral T>
void store_little_endian(T number, MutableByteView bytes) {
  number = little_endian(number);
  std::memcpy(bytes.data(), &number, sizeof(T));
}

}  // namespace cairn::inline v0
