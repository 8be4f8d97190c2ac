// flat_part.h -- the vector in which a rank has its parts of several parameters.
#pragma once

#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/pytorch/tensors/element.h>
#include <cairn/formats/raw/raw_read.h>

#include <cstdint>

namespace cairn::inline v0::pytorch::deepspeed {

struct FlatPart {
  TorchElement element;
  std::uint64_t count = 0;  // elements
  RawArray array;           // one run of bytes that are shared

  // The elements [from, from + n), which must be there.
  [[nodiscard]] RawArray elements(std::uint64_t from, std::uint64_t n) const;
};

// The tensor of a leaf. Throws data_loss for anything but a tensor of one dimension, unimplemented
// for one whose elements do not lie one behind the other, and the error of a leaf that has one. The
// storages of its file must be shared.
FlatPart flat_part(const StateLeaf& leaf);

}  // namespace cairn::inline v0::pytorch::deepspeed
