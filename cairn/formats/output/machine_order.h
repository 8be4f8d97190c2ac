// machine_order.h -- the files of these formats hold arrays as they lie in the memory of a
// little-endian machine.
#pragma once

#include <cairn/base/byte_order.h>
#include <cairn/error.h>

namespace cairn::inline v0 {

// Throws unimplemented on a big-endian machine.
inline void check_writes_machine_order() {
  if (kBigEndianMachine)
    throw Error(Code::kUnimplemented,
                "this machine is big-endian: Cairn reads files of this format here, and does not "
                "write them");
}

}  // namespace cairn::inline v0
