#include <cairn/array/rounding.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace cairn::inline v0 {

void prepare_rounding(double* numbers, std::size_t n, DType dtype) {
  // The conversion to float16 is direct; the other types hold float32 numbers exactly.
  if (dtype_kind(dtype) != DTypeKind::kFloat || dtype == DType::kFloat16 ||
      dtype == DType::kFloat32 || dtype == DType::kFloat64)
    return;
  for (std::size_t k = 0; k < n; ++k) {
    const double x = numbers[k];
    const auto nearest = static_cast<float>(x);
    const auto bits = std::bit_cast<std::uint32_t>(nearest);
    // One step towards zero from a number that was rounded away from it.
    const std::uint32_t truncated = std::fabs(static_cast<double>(nearest)) > std::fabs(x) ? 1 : 0;
    const auto odd = std::bit_cast<float>((bits - truncated) | 1U);
    const bool keeps = static_cast<double>(nearest) == x || std::isnan(x);
    numbers[k] = static_cast<double>(keeps ? nearest : odd);
  }
}

}  // namespace cairn::inline v0
