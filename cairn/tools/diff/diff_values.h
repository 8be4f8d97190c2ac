// diff_values.h -- compares two runs of elements and counts the differences.
#pragma once

#include <cairn/diff.h>
#include <cairn/tools/source/value_sums.h>

#include <cstdint>

namespace cairn::inline v0 {

// The types to compare, and when two elements are equal.
struct ValueRule {
  DType a = DType::kUint8, b = DType::kUint8;
  std::size_t size_a = 1, size_b = 1;  // bytes of an element; equal if the types are
  double rtol = 0, atol = 0;
  bool measures = false;  // also sum up all pairs
  [[nodiscard]] bool same_type() const { return a == b; }
  // Whether equal means identical bits: for one type without a tolerance, and for elements whose
  // meaning is unknown.
  [[nodiscard]] bool bitwise() const {
    return same_type() && ((rtol == 0 && atol == 0) || a == DType::kOpaque);
  }
};

// Compares n consecutive elements. `first` of the result counts from the first of them. Adds to
// `sums` if the rule has measures.
ValueDiff compare_elements(const ValueRule& rule, const std::byte* a, const std::byte* b,
                           std::size_t n, ValueSums& sums);
// Adds the result `part`, whose elements begin at number `begin`, to `total`.
void merge(ValueDiff& total, const ValueDiff& part, std::uint64_t begin);

}  // namespace cairn::inline v0
