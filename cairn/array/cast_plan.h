// cast_plan.h -- the conversion from one element type to another, chosen once and run on contiguous
// elements.
//
// 28 types make 756 pairs; each pair takes at most two passes over a block that stays in the cache:
//
//      from --load--> int32, int64, uint64, float or double --store--> to
//
// and only one where either end already is one of those five. Every conversion takes the way NumPy
// and ml_dtypes take, double rounding included: int64 and float64 reach the narrow floats through
// float32; only float64 to float16 is direct. Where C leaves a float-to-integer conversion
// undefined (NaN, out of range), it is what x86-64 makes of it: through int32 for 8- and 16-bit
// targets and int32, through int64 for uint32 and int64, with the least integer for what does not
// fit even there; wrapped to the target. uint64 is exact up to 2^64 - 1. From an 8-bit float, NaN
// gives 0 and infinity the nearest integer of the type, as in ml_dtypes.
#pragma once

#include <cairn/types.h>

namespace cairn {

class CastPlan {
 public:
  // Two different types, neither opaque.
  CastPlan(DType from, DType to);

  [[nodiscard]] std::size_t from_size() const { return from_size_; }
  [[nodiscard]] std::size_t to_size() const { return to_size_; }
  // n elements, contiguous on both sides, at any alignment.
  void run(const std::byte* from, std::byte* to, std::size_t n) const;

 private:
  using Loop = void (*)(const std::byte* from, std::byte* to, std::size_t n);

  void tabulate(DType to);
  void look_up(const std::byte* from, std::byte* to, std::size_t n) const;

  std::size_t from_size_;
  std::size_t to_size_;
  Loop load_ = nullptr;   // nullptr: the elements already are of the middle type
  Loop store_ = nullptr;  // nullptr: the middle type is what is wanted
  bool hints_ = false;    // tell the processor which bytes come next
  Bytes table_;           // if there, the 256 results
};

}  // namespace cairn
