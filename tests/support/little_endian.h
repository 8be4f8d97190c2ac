// little_endian.h -- elements as files hold them, to be compared with golden values on any machine.
#pragma once

#include <cairn/array/box.h>
#include <cairn/base/byte_order.h>
#include <cairn/bytes.h>
#include <cairn/types.h>

#include <utility>

namespace cairn::testing {

// Returns numbers of the machine's byte order as little-endian ones. Elements of types that Cairn
// does not interpret stay as they are.
inline Bytes little_endian(Bytes elements, DType dtype) {
  if (!kBigEndianMachine || dtype == DType::kOpaque || dtype_size(dtype) == 1) return elements;
  const auto count = static_cast<std::int64_t>(elements.size() / dtype_size(dtype));
  const MutableArrayView view = make_view(MutableByteView(elements), dtype, {count});
  copy_elements_swapped(as_const(view), view);
  return elements;
}

}  // namespace cairn::testing
