// cast_check.h -- finds elements that another type cannot hold (Casting::kChecked).
//
// Floating-point numbers may be rounded to smaller floating-point numbers. All other conversions
// must keep the number. A number is never converted to bool.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The check of one pair of types.
class CastCheck {
 public:
  // Neither type may be opaque.
  CastCheck(DType from, DType to);

  // Whether there are elements that `to` cannot hold.
  [[nodiscard]] bool can_lose() const { return can_lose_; }
  // The first of n contiguous elements that `to` cannot hold; n if there is none. Any alignment.
  [[nodiscard]] std::size_t find(const std::byte* elements, std::size_t n) const;

 private:
  [[nodiscard]] std::size_t find_in_block(const std::byte* elements, std::size_t n) const;
  [[nodiscard]] std::size_t find_imaginary(const std::byte* elements, std::size_t n) const;

  DType from_;
  DType to_;
  bool can_lose_ = true;
};

// The index of the first element in C order that `to` cannot hold; none if there is none.
std::optional<std::vector<std::int64_t>> find_lost(const ArrayView& from, DType to);

// The number as text: "16777217", "0.5", "(1+2j)", "nan".
std::string element_text(DType dtype, const std::byte* element);

}  // namespace cairn::inline v0
