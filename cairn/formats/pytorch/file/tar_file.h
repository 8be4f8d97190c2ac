// tar_file.h -- files of torch.save before PyTorch 0.1.10: tar archives of four members.
//
//   sys_info   a pickle: facts about the machine
//   pickle     the object; the persistent id of a tensor or a storage is its key
//   tensors    a pickle: how many; for each the pickle (key, key of the storage, class), the number
//              of dimensions (int32), 4 bytes, the shape, the strides and the offset (int64 each)
//   storages   a pickle: how many; for each the pickle (key, location, class), the number of
//              elements (int64) and the elements; then a pickle with the views of storages, a list
//              of (key, key of the storage, first element, number of elements)
//
// Keys are the addresses that the objects had. Numbers are little-endian.
//
// Source of the rules: `legacy_load` of torch.serialization, in torch 2.13.
#pragma once

#include <cairn/formats/pytorch/file/pickled_file.h>
#include <cairn/formats/pytorch/file/torch_file.h>

#include <cstdint>
#include <vector>

namespace cairn::inline v0::pytorch {

// Reads an archive of `size` bytes. Throws data_loss for a damaged file, and as read_tar(). Such
// files have no checksums of what they hold.
TorchFile read_tar_file(std::uint64_t size, const ReadAtFn& read);
// All pickles of such a file, in its order.
std::vector<FoundPickle> read_tar_pickles(std::uint64_t size, const ReadAtFn& read);

}  // namespace cairn::inline v0::pytorch
