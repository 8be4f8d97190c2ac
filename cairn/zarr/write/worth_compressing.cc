// worth_compressing.cc -- estimates from some blocks of a chunk what compressing it with zstd saves
// and how long it takes.
//
// Compression must save at least a tenth. Decoding takes time, too, and data that shrinks only a
// little (float32 weights shrink by 7 %) is better read at memory speed. For large chunks the code
// compresses a sample. For small chunks a trial would take longer than all other work, so the code
// counts byte frequencies and repeated words instead.
#include <cairn/codec/compress.h>
#include <cairn/zarr/write/encode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kTryOut = std::size_t{128} << 10U;  // larger chunks get a trial
constexpr std::size_t kLeastSample = std::size_t{1} << 10U;
constexpr std::size_t kMostSample = std::size_t{128} << 10U;
constexpr std::size_t kMostCounted = std::size_t{8} << 10U;

// Takes blocks from the whole chunk, because one chunk may hold weights and zeros. Blocks start at
// cache lines, so that elements of any size keep their position relative to the line.
ByteView take_sample(ByteView elements, std::size_t wanted, Bytes& memory) {
  if (wanted >= elements.size()) return elements;
  constexpr std::size_t kBlocks = 8;
  constexpr std::size_t kLine = 64;
  const std::size_t size = wanted / kBlocks;
  const std::size_t step = (elements.size() - size) / (kBlocks - 1);
  memory.resize(size * kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i)
    std::memcpy(memory.data() + i * size, elements.data() + i * step / kLine * kLine, size);
  return memory;
}

CompressionEstimate tried_out(ByteView sample) {
  Bytes out(compress_bound(Codec::kZstd, sample.size()));
  const auto start = std::chrono::steady_clock::now();
  const std::size_t size = compress_into(Codec::kZstd, {.level = 1}, sample, out);
  const auto elapsed =
      std::max(std::chrono::nanoseconds(1), std::chrono::steady_clock::now() - start);
  const auto whole = static_cast<double>(sample.size());
  return {.is_worthwhile = size < sample.size() - sample.size() / 10,
          .ratio = static_cast<double>(size) / whole,
          .coding_time = static_cast<double>(elapsed.count()) / whole};
}

// Returns n * log2(n), from a table for the counts of small samples. Computing a logarithm for each
// byte value would take half of the time.
float n_log2_n(std::uint32_t n) {
  constexpr std::size_t kTabled = 512;
  static const auto kTable = [] {
    std::array<float, kTabled> table{};
    for (std::size_t i = 1; i < kTabled; ++i)
      table[i] = static_cast<float>(i) * std::log2(static_cast<float>(i));
    return table;
  }();
  return n < kTabled ? kTable[n] : static_cast<float>(n) * std::log2(static_cast<float>(n));
}

// Returns the bits per byte that the frequencies of bytes alone require (the entropy).
double bits_per_byte(ByteView sample) {
  static_assert(kMostCounted / 4 <= std::numeric_limits<std::uint16_t>::max());
  // four tables, so that an increment does not wait for the previous one
  std::array<std::array<std::uint16_t, 256>, 4> counts{};
  const std::size_t quarters = sample.size() / 4 * 4;
  for (std::size_t i = 0; i < quarters; i += 4)
    for (std::size_t k = 0; k < 4; ++k) ++counts[k][std::to_integer<std::size_t>(sample[i + k])];
  for (std::size_t i = quarters; i < sample.size(); ++i)
    ++counts[0][std::to_integer<std::size_t>(sample[i])];
  float sum = 0;
  for (std::size_t value = 0; value < 256; ++value)
    sum += n_log2_n(std::uint32_t{counts[0][value]} + counts[1][value] + counts[2][value] +
                    counts[3][value]);
  const auto total = static_cast<float>(sample.size());
  return std::log2(total) - sum / total;
}

// Returns the share of eight-byte words that occurred before, which estimates the gain from
// matches.
double repeated_words(ByteView sample) {
  constexpr std::size_t kSlots = 512;
  std::array<std::uint64_t, kSlots> last{};
  std::size_t repeated = 0;
  const std::size_t words = sample.size() / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, sample.data() + i * sizeof(word), sizeof(word));
    std::uint64_t& slot = last[word * 0x9e3779b97f4a7c15U >> 55U];
    if (slot == word) ++repeated;
    slot = word;
  }
  return words == 0 ? 0 : static_cast<double>(repeated) / static_cast<double>(words);
}

CompressionEstimate counted(ByteView sample) {
  // The limit is a tenth below eight bits. Frequencies in a small sample look more uneven than they
  // are, by 255 / (2 ln 2) bits in total; `bias` corrects that.
  const double bias = 184 / static_cast<double>(sample.size());
  const double bits = bits_per_byte(sample) + bias;
  if (bits >= 7.2) {
    const double repeated = repeated_words(sample);
    return {.is_worthwhile = repeated > 0.15, .ratio = 1 - repeated};
  }
  return {.is_worthwhile = true, .ratio = std::max(bits, 0.0) / 8};
}

}  // namespace

CompressionEstimate estimate_compression(ByteView elements) {
  constexpr std::size_t kTiny = 64;  // a frame's overhead is a tenth of this
  if (elements.size() < kTiny) return {};
  Bytes memory;
  const std::size_t most = is_small_chunk(elements.size()) ? kMostCounted : kMostSample;
  const ByteView sample =
      take_sample(elements, std::clamp(elements.size() / 8, kLeastSample, most), memory);
  return is_small_chunk(elements.size()) ? counted(sample) : tried_out(sample);
}

bool is_small_chunk(std::uint64_t bytes) { return bytes < kTryOut; }

bool worth_compressing(ByteView elements) { return estimate_compression(elements).is_worthwhile; }

}  // namespace cairn::inline v0::zarr
