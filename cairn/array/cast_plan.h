// cast_plan.h -- the conversion from one element type to another: selected once, then run on
// contiguous elements.
//
// 28 types make 756 pairs. Each pair takes at most two passes over a block that stays in the cache,
// through one of five hub types:
//
//      from --load--> int32, int64, uint64, float or double --store--> to
//
// One pass suffices if either end is a hub type. Every conversion takes the same steps as NumPy and
// ml_dtypes, double rounding included: int64 and float64 reach the narrow floats through float32;
// only float64 to float16 is direct. C leaves some float-to-integer conversions undefined (NaN, out
// of range). Their results are those of x86-64: through int32 for int32 and for 8- and 16-bit
// targets, through int64 for uint32 and int64, with the least integer for values that do not fit
// even there; the result wraps to the target. uint64 is exact up to 2^64 - 1. From an 8-bit float,
// NaN gives 0 and infinity the nearest integer of the type, as in ml_dtypes.
#pragma once

#include <cairn/types.h>

#include <string_view>

namespace cairn::inline v0 {

// The instructions that the loops use on this processor: "AVX2", "NEON" or "baseline".
std::string_view cast_instructions();

// The conversion between one pair of types.
class CastPlan {
 public:
  // The types must differ, and neither may be opaque.
  CastPlan(DType from, DType to);

  [[nodiscard]] std::size_t from_size() const { return from_size_; }
  [[nodiscard]] std::size_t to_size() const { return to_size_; }
  // Converts n elements, contiguous on both sides, at any alignment.
  void run(const std::byte* from, std::byte* to, std::size_t n) const;

 private:
  using Loop = void (*)(const std::byte* from, std::byte* to, std::size_t n);

  void tabulate(DType to);
  void look_up(const std::byte* from, std::byte* to, std::size_t n) const;

  std::size_t from_size_;
  std::size_t to_size_;
  Loop load_ = nullptr;   // null: the elements already have the hub type
  Loop store_ = nullptr;  // null: the hub type is the target type
  bool hints_ = false;    // prefetch the bytes to come
  Bytes table_;           // the results for all 256 codes; empty: not used
};

}  // namespace cairn::inline v0
