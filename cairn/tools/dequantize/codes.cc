#include <cairn/tools/dequantize/codes.h>

#include <cairn/array/cast_plan.h>
#include <cairn/array/small_float.h>

#include <array>
#include <cstring>

namespace cairn::inline v0 {
namespace {

// The two numbers of a byte, so that one load and one store serve both.
struct CodePair {
  float low, high;
};
using CodePairs = std::array<CodePair, 256>;

template <class Decode>
constexpr CodePairs pairs_of(Decode decode) {
  CodePairs pairs{};
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {decode(i & 15U), decode(i >> 4U)};
  return pairs;
}
constexpr CodePairs kFloat4Pairs =
    pairs_of([](std::size_t code) { return small_float::kDecoded<small_float::kE2m1fn>[code]; });
constexpr CodePairs kInt4Pairs =
    pairs_of([](std::size_t code) { return static_cast<float>(code) - 8.0F; });

void decode_pairs(const CodePairs& pairs, const std::byte* row, std::int64_t first, std::int64_t n,
                  float* out) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row) + first / 2;
  if (first % 2 != 0 && n > 0) {
    *out++ = pairs[*bytes++].high;
    --n;
  }
  for (std::int64_t i = 0; i < n / 2; ++i)
    std::memcpy(out + 2 * i, &pairs[bytes[i]], sizeof(CodePair));
  if (n % 2 != 0) out[n - 1] = pairs[bytes[n / 2]].low;
}

void decode_bytes(const std::byte* row, std::int64_t first, std::int64_t n, float* out) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row) + first;
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(bytes[i]) - 128.0F;
}

}  // namespace

std::int64_t codes_per_element(CodePacking packing) {
  switch (packing) {
    case CodePacking::kFloat4:
      return 2;
    case CodePacking::kInt4:
      return 8;
    case CodePacking::kInt8:
      return 4;
    case CodePacking::kElements:
      break;
  }
  return 1;
}

void decode_codes(CodePacking packing, DType dtype, const std::byte* row, std::int64_t first,
                  std::int64_t n, float* out) {
  switch (packing) {
    case CodePacking::kFloat4:
      return decode_pairs(kFloat4Pairs, row, first, n, out);
    case CodePacking::kInt4:
      return decode_pairs(kInt4Pairs, row, first, n, out);
    case CodePacking::kInt8:
      return decode_bytes(row, first, n, out);
    case CodePacking::kElements:
      break;
  }
  CastPlan(dtype, DType::kFloat32)
      .run(row + first, reinterpret_cast<std::byte*>(out), static_cast<std::size_t>(n));
}

}  // namespace cairn::inline v0
