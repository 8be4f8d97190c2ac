// hdf5_checksum.cc -- implements Fletcher-32 and lookup3.

#include <cairn/zarr/codec/hdf5_checksum.h>

#include <algorithm>
#include <bit>
#include <cstddef>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::uint64_t kModulus = 65535;

std::uint64_t byte_at(ByteView bytes, std::size_t i) {
  return std::to_integer<std::uint64_t>(bytes[i]);
}

std::uint32_t reduced(std::uint64_t sum) {
  return sum == 0 ? 0 : static_cast<std::uint32_t>((sum - 1) % kModulus + 1);
}

struct Lookup3 {
  std::uint32_t a;
  std::uint32_t b;
  std::uint32_t c;

  void mix() {
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }
  void finish() {
    c ^= b, c -= std::rotl(b, 14);
    a ^= c, a -= std::rotl(c, 11);
    b ^= a, b -= std::rotl(a, 25);
    c ^= b, c -= std::rotl(b, 16);
    a ^= c, a -= std::rotl(c, 4);
    b ^= a, b -= std::rotl(a, 14);
    c ^= b, c -= std::rotl(b, 24);
  }
};

// Returns up to four bytes as a little-endian number; missing bytes count as zero.
std::uint32_t word_at(ByteView bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i)
    word |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  return word;
}

}  // namespace

void Fletcher32::add_words(ByteView words) {
  // The sums of a block fit into 64 bits with a margin; the reduction makes them small again.
  constexpr std::size_t kBlock = std::size_t{1} << 16U;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.size(), at + kBlock);
    for (; at < end; at += 2) {
      sum_ += byte_at(words, at) << 8U | byte_at(words, at + 1);
      sum_of_sums_ += sum_;
    }
    sum_ = reduced(sum_);
    sum_of_sums_ = reduced(sum_of_sums_);
  }
}

void Fletcher32::add(ByteView bytes) {
  if (bytes.empty()) return;
  if (has_odd_) {
    const std::byte word[] = {odd_, bytes[0]};
    has_odd_ = false;
    add_words(word);
    bytes = bytes.subspan(1);
  }
  const std::size_t even = bytes.size() / 2 * 2;
  add_words(bytes.first(even));
  has_odd_ = even < bytes.size();
  if (has_odd_) odd_ = bytes.back();
}

std::uint32_t Fletcher32::value() const {
  Fletcher32 all = *this;
  const std::byte word[] = {odd_, std::byte{}};
  if (has_odd_) all.add_words(word);
  return static_cast<std::uint32_t>(all.sum_of_sums_ << 16U | all.sum_);
}

std::uint32_t fletcher32(ByteView bytes) {
  Fletcher32 sum;
  sum.add(bytes);
  return sum.value();
}

std::uint32_t lookup3(ByteView bytes, std::uint32_t seed) {
  constexpr std::size_t kStride = 12;
  const std::uint32_t start = 0xdeadbeefU + static_cast<std::uint32_t>(bytes.size()) + seed;
  Lookup3 state{start, start, start};
  if (bytes.empty()) return state.c;
  while (true) {
    state.a += word_at(bytes, 0);
    state.b += word_at(bytes, 4);
    state.c += word_at(bytes, 8);
    // the last block, of at most twelve bytes, is finished instead of mixed
    if (bytes.size() <= kStride) break;
    state.mix();
    bytes = bytes.subspan(kStride);
  }
  state.finish();
  return state.c;
}

}  // namespace cairn::inline v0::zarr
