// diff_values.h -- how two runs of elements differ, counted.
#pragma once

#include <cairn/diff.h>

#include <cstdint>

namespace cairn {

// What to compare, and when two elements are equal.
struct ValueRule {
  DType a = DType::kUint8, b = DType::kUint8;
  std::size_t size_a = 1, size_b = 1;  // bytes of an element; the same if the types are
  double rtol = 0, atol = 0;
  [[nodiscard]] bool same_type() const { return a == b; }
  // Equal is the same bits: for one type without a tolerance, and for elements whose meaning is not
  // known.
  [[nodiscard]] bool bitwise() const {
    return same_type() && ((rtol == 0 && atol == 0) || a == DType::kOpaque);
  }
};

// Compares n elements that lie one after the other. `first` of the result counts from the first of
// them.
ValueDiff compare_elements(const ValueRule& rule, const std::byte* a, const std::byte* b,
                           std::size_t n);
// Adds what was found in elements from number `begin` on.
void merge(ValueDiff& total, const ValueDiff& part, std::uint64_t begin);

}  // namespace cairn
