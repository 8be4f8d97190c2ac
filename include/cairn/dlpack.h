// dlpack.h -- uses arrays of other frameworks (PyTorch, JAX, NumPy, CuPy) as leaves and shards
// without a copy, through the DLPack ABI: https://dmlc.github.io/dlpack/latest/c_api.html. Works
// with the caller's version of the DLPack header; Cairn includes none.
#pragma once

#include <cairn/error.h>
#include <cairn/orbax/sharding.h>
#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <string>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// The members of a DLTensor, independent of the version of the header.
struct DlpackTensor {
  const void* data = nullptr;
  std::uint64_t byte_offset = 0;          // from `data` to the first element
  std::int32_t device_type = 1;           // kDLCPU
  std::uint8_t type_code = 0;             // DLDataTypeCode
  std::uint8_t type_bits = 0;             // bits per element
  std::uint16_t lanes = 1;                // 1: not a vector
  bool padded = false;                    // each element of less than a byte takes one byte
  std::int32_t rank = 0;                  // number of dimensions
  const std::int64_t* shape = nullptr;    // `rank` extents
  const std::int64_t* strides = nullptr;  // in elements; null: C order without gaps
};

// A view of the tensor's elements. The tensor keeps them; the view is valid as long as its memory.
// Throws invalid_argument with the reason for memory that the CPU cannot read (for device memory,
// use a ShardCopy that copies from there), for an element type that DType lacks, for vectors, for
// packed elements of less than a byte, and for inconsistent descriptions.
ArrayView dlpack_view(const DlpackTensor& tensor);

// Takes ownership of a DLManagedTensor* or DLManagedTensorVersioned*, as PyCapsule_GetPointer and
// the frameworks' to_dlpack functions return it. Its deleter runs when the last copy of the result
// is destroyed, on the thread that destroys it; the caller must ensure that the deleter may run
// there (Python objects). Throws as dlpack_view, and unimplemented for a major version other than
// 1; the caller then keeps the tensor.
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

}  // namespace cairn::inline v0
#pragma GCC visibility pop
