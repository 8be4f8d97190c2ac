// dlpack.h -- arrays of other frameworks (PyTorch, JAX, NumPy, CuPy) as leaves and shards, without
// a copy, through DLPack's ABI: https://dmlc.github.io/dlpack/latest/c_api.html. Works with the
// DLPack header that you have; Cairn needs none.
#pragma once

#include <cairn/error.h>
#include <cairn/sharding.h>
#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace cairn {

// What a DLTensor says, in whichever version of the header it is declared.
struct DlpackTensor {
  const void* data = nullptr;
  std::uint64_t byte_offset = 0;
  std::int32_t device_type = 1;  // kDLCPU
  std::uint8_t type_code = 0;
  std::uint8_t type_bits = 0;
  std::uint16_t lanes = 1;
  bool padded = false;  // elements of less than a byte take a byte each
  std::int32_t rank = 0;
  const std::int64_t* shape = nullptr;
  const std::int64_t* strides = nullptr;  // in elements; null: C order without gaps
};

// A view of the elements, which stay the tensor's; valid as long as its memory is. Throws
// invalid_argument, saying what it is, for memory that the processor cannot read (a device's: give
// a ShardCopy that copies from there), for an element type that is none of DType's, vectors, packed
// elements of less than a byte, and descriptions that make no sense.
ArrayView dlpack_view(const DlpackTensor& tensor);

// Takes over a DLManagedTensor* or DLManagedTensorVersioned*, as PyCapsule_GetPointer and the
// frameworks' to_dlpack functions give it: its deleter runs when the last copy of the result is
// gone. Not thread-safe deleters (Python's objects) are the caller's business. Throws as
// dlpack_view, and unimplemented for another major version than 1; the tensor stays the caller's
// then.
template <class Managed>
HostMemory take_dlpack(Managed* managed) {
  DlpackTensor tensor;
  if constexpr (requires { managed->version.major; }) {
    if (managed->version.major != 1)
      throw Error(Code::kUnimplemented,
                  "a DLPack tensor of version " + std::to_string(managed->version.major) +
                      "; only version 1 is known, and those without a version");
    constexpr std::uint64_t kPadded = 4;  // DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
    tensor.padded = (managed->flags & kPadded) != 0;
  }
  const auto& from = managed->dl_tensor;
  tensor.data = from.data;
  tensor.byte_offset = from.byte_offset;
  tensor.device_type = static_cast<std::int32_t>(from.device.device_type);
  tensor.type_code = static_cast<std::uint8_t>(from.dtype.code);
  tensor.type_bits = from.dtype.bits;
  tensor.lanes = from.dtype.lanes;
  tensor.rank = from.ndim;
  tensor.shape = from.shape;
  tensor.strides = from.strides;
  const ArrayView view = dlpack_view(tensor);
  const auto release = [](Managed* owned) {
    if (owned->deleter != nullptr) owned->deleter(owned);
  };
  return {view, std::shared_ptr<Managed>(managed, release)};
}

}  // namespace cairn
