// place.h -- where the elements of a tensor are in its storage.
#pragma once

#include <cairn/formats/pytorch/tensors/meaning.h>
#include <cairn/formats/raw/raw_read.h>

#include <cstdint>
#include <memory>

namespace cairn::inline v0::pytorch {

// The bytes of a storage.
struct StorageBytes {
  std::shared_ptr<const CommonBytes> bytes;
  bool big_endian = false;
  bool has_one_user = false;  // no other tensor shows any of it
};

// The tensor without the elements outside of `part`, which lies inside it.
TorchTensor narrowed(TorchTensor tensor, const Box& part);
// Number of the tensor's elements in bytes. Throws data_loss if no memory has that many.
std::uint64_t memory_of(const TorchTensor& tensor);

// Finds the elements. A tensor whose elements lie in C order, or in C order of other axes, is a run
// of bytes; of any other one the elements are gathered. Throws data_loss for a storage of another
// size than its name says, and for a tensor that reaches beyond it; unimplemented for packed
// elements that are not in C order.
RawArray place_tensor(const TorchTensor& tensor, const StorageBytes& storage);

// About how many bytes a reader reads and moves for a tensor that place_tensor() has placed, with a
// read counted as at least 4 KiB. Elements that overlap are read again and again.
double bytes_read_for(const TorchTensor& tensor, const StorageBytes& storage);

}  // namespace cairn::inline v0::pytorch
