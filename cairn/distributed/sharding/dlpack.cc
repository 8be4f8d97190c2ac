// dlpack.cc -- the element type and the memory of a DLPack tensor.
#include <cairn/dlpack.h>

#include <array>
#include <limits>
#include <optional>

namespace cairn::inline v0 {
namespace {

// DLDataTypeCode. Each float format of eight bits or less has a code of its own.
enum TypeCode : std::uint8_t {
  kInt = 0,
  kUint = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFirstFloat8 = 7,
  kFloat4E2m1fn = 17
};

std::optional<DType> with_bits(std::uint8_t bits, const std::array<DType, 6>& types) {
  constexpr std::array<std::uint8_t, 6> kBits = {2, 4, 8, 16, 32, 64};
  for (std::size_t i = 0; i < kBits.size(); ++i)
    if (kBits[i] == bits) return types[i];
  return std::nullopt;
}

std::optional<DType> dtype_of(std::uint8_t code, std::uint8_t bits) {
  switch (code) {
    case kInt:
      return with_bits(bits, {DType::kInt2, DType::kInt4, DType::kInt8, DType::kInt16,
                              DType::kInt32, DType::kInt64});
    case kUint:
      return with_bits(bits, {DType::kUint2, DType::kUint4, DType::kUint8, DType::kUint16,
                              DType::kUint32, DType::kUint64});
    case kFloat:
      return bits == 16   ? std::optional(DType::kFloat16)
             : bits == 32 ? std::optional(DType::kFloat32)
             : bits == 64 ? std::optional(DType::kFloat64)
                          : std::nullopt;
    case kBfloat:
      return bits == 16 ? std::optional(DType::kBfloat16) : std::nullopt;
    case kComplex:
      return bits == 64    ? std::optional(DType::kComplex64)
             : bits == 128 ? std::optional(DType::kComplex128)
                           : std::nullopt;
    case kBool:
      return bits == 8 ? std::optional(DType::kBool) : std::nullopt;
    case kFloat4E2m1fn:
      return bits == 4 ? std::optional(DType::kFloat4E2m1fn) : std::nullopt;
    default:
      break;
  }
  constexpr std::array<DType, 8> kFloat8 = {
      DType::kFloat8E3m4,     DType::kFloat8E4m3, DType::kFloat8E4m3b11fnuz, DType::kFloat8E4m3fn,
      DType::kFloat8E4m3fnuz, DType::kFloat8E5m2, DType::kFloat8E5m2fnuz,    DType::kFloat8E8m0fnu};
  if (code < kFirstFloat8 || code >= kFirstFloat8 + kFloat8.size() || bits != 8)
    return std::nullopt;
  return kFloat8[code - kFirstFloat8];
}

// Returns whether the processor can read the memory: host memory, page-locked or not, and CUDA
// managed memory, which migrates to the device that touches it.
bool is_readable(std::int32_t device_type) {
  // kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged
  constexpr std::array<std::int32_t, 4> kHost = {1, 3, 11, 13};
  for (const std::int32_t type : kHost)
    if (type == device_type) return true;
  return false;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Code::kInvalidArgument, "a DLPack tensor " + what);
}

}  // namespace

ArrayView dlpack_view(const DlpackTensor& tensor) {
  if (!is_readable(tensor.device_type))
    refuse("lies on a device of type " + std::to_string(tensor.device_type) +
           ", whose memory the CPU cannot read; give a ShardCopy that copies from the device");
  const auto dtype = dtype_of(tensor.type_code, tensor.type_bits);
  if (!dtype || tensor.lanes != 1)
    refuse("has elements of type code " + std::to_string(tensor.type_code) + " with " +
           std::to_string(tensor.type_bits) + " bits and " + std::to_string(tensor.lanes) +
           " lanes, which match no dtype of Cairn");
  if (tensor.type_bits < 8 && !tensor.padded)
    refuse("has packed " + std::string(dtype_name(*dtype)) +
           " elements; store one element in each byte");
  if (tensor.rank < 0 || (tensor.rank > 0 && tensor.shape == nullptr))
    refuse("of rank " + std::to_string(tensor.rank) + " has no shape");

  ArrayView view;
  view.dtype = *dtype;
  view.element_size = dtype_size(*dtype);
  const auto rank = static_cast<std::size_t>(tensor.rank);
  for (std::size_t d = 0; d < rank; ++d) view.shape.push_back(tensor.shape[d]);
  for (const std::int64_t extent : view.shape)
    if (extent < 0) refuse("has shape " + shape_text(view.shape));
  if (element_count(view.shape) >
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(view.element_size))
    refuse("of shape " + shape_text(view.shape) + " exceeds the address space");
  view.strides = c_strides(view.shape, view.element_size);
  for (std::size_t d = 0; d < rank && tensor.strides != nullptr; ++d)
    if (__builtin_mul_overflow(tensor.strides[d], static_cast<std::int64_t>(view.element_size),
                               &view.strides[d]))
      refuse("has stride " + std::to_string(tensor.strides[d]) +
             " elements, which overflows its byte stride");
  if (tensor.data == nullptr && element_count(view.shape) > 0)
    refuse("has no memory for its elements");
  view.data = tensor.data == nullptr
                  ? nullptr
                  : static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  return view;
}

}  // namespace cairn::inline v0
