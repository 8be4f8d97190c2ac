// signs.h -- changes the signs of elements: PyTorch stores some views without their last operation.
#pragma once

#include <cairn/types.h>

namespace cairn::inline v0 {

// Replaces each element by its negative: the sign bits of floating-point and complex numbers
// change, integers wrap. Throws unimplemented for types without a sign.
void negate(const MutableArrayView& view);
// Replaces each complex element by its conjugate. Does nothing for other types.
void conjugate(const MutableArrayView& view);

}  // namespace cairn::inline v0
