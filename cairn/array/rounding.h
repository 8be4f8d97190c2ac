// rounding.h -- rounds float64 numbers once, to types whose conversion goes through float32.
#pragma once

#include <cairn/types.h>

#include <cstddef>

namespace cairn::inline v0 {

// Prepares float64 numbers for a conversion to `dtype` that goes through float32, so that the
// number is rounded once: to a float32 number whose last bit is odd if it is inexact ("round to
// odd"). Then no second rounding meets a tie that the first one made. Other types need nothing.
void prepare_rounding(double* numbers, std::size_t n, DType dtype);

}  // namespace cairn::inline v0
