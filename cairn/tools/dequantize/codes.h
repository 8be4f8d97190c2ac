// codes.h -- the codes of quantised weights, as they lie in memory, and the numbers that they stand
// for.
//
//   packing      a stored element    codes
//   kElements    float8_*, int8      one
//   kFloat4      uint8               2 of float4_e2m1fn, the first one in the low bits
//   kInt4        int32               8 of 4 bits, the first one in the low bits; 8 is zero
//   kInt8        int32               4 of 8 bits, the first one in the low bits; 128 is zero
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>

namespace cairn::inline v0 {

enum class CodePacking : std::uint8_t { kElements, kFloat4, kInt4, kInt8 };

// Codes in one stored element.
std::int64_t codes_per_element(CodePacking packing);

// Converts n codes of a row from code `first` on to float32, exactly. `row`: the stored elements,
// one behind the other, at any alignment. `dtype`: their type, of kElements: one of 8 bits.
void decode_codes(CodePacking packing, DType dtype, const std::byte* row, std::int64_t first,
                  std::int64_t n, float* out);

}  // namespace cairn::inline v0
