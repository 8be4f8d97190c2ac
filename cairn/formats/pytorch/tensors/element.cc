#include <cairn/formats/pytorch/tensors/element.h>

#include <algorithm>
#include <iterator>

namespace cairn::inline v0::pytorch {
namespace {

constexpr TorchElement kElements[] = {
    {"bool", DType::kBool, 1},
    {"uint8", DType::kUint8, 1},
    {"uint16", DType::kUint16, 2},
    {"uint32", DType::kUint32, 4},
    {"uint64", DType::kUint64, 8},
    {"int8", DType::kInt8, 1},
    {"int16", DType::kInt16, 2},
    {"int32", DType::kInt32, 4},
    {"int64", DType::kInt64, 8},
    {"float16", DType::kFloat16, 2},
    {"float32", DType::kFloat32, 4},
    {"float64", DType::kFloat64, 8},
    {"bfloat16", DType::kBfloat16, 2},
    {"complex32", DType::kOpaque, 4},
    {"bcomplex32", DType::kOpaque, 4},
    {"complex64", DType::kComplex64, 8},
    {"complex128", DType::kComplex128, 16},
    {"float8_e4m3fn", DType::kFloat8E4m3fn, 1},
    {"float8_e4m3fnuz", DType::kFloat8E4m3fnuz, 1},
    {"float8_e5m2", DType::kFloat8E5m2, 1},
    {"float8_e5m2fnuz", DType::kFloat8E5m2fnuz, 1},
    {"float8_e8m0fnu", DType::kFloat8E8m0fnu, 1},
    {"float4_e2m1fn_x2", DType::kFloat4E2m1fn, 1, 2},
    // The integers behind quantised values.
    {"quint8", DType::kUint8, 1},
    {"qint8", DType::kInt8, 1},
    {"qint32", DType::kInt32, 4},
    {"quint4x2", DType::kUint4, 1, 2},
    {"quint2x4", DType::kUint2, 1, 4},
    // Elements of one to seven bits take a byte, and PyTorch computes with none of them.
    {"uint1", DType::kOpaque, 1},
    {"uint2", DType::kOpaque, 1},
    {"uint3", DType::kOpaque, 1},
    {"uint4", DType::kOpaque, 1},
    {"uint5", DType::kOpaque, 1},
    {"uint6", DType::kOpaque, 1},
    {"uint7", DType::kOpaque, 1},
    {"int1", DType::kOpaque, 1},
    {"int2", DType::kOpaque, 1},
    {"int3", DType::kOpaque, 1},
    {"int4", DType::kOpaque, 1},
    {"int5", DType::kOpaque, 1},
    {"int6", DType::kOpaque, 1},
    {"int7", DType::kOpaque, 1},
    {"bits8", DType::kOpaque, 1},
    {"bits16", DType::kOpaque, 2},
    {"bits1x8", DType::kOpaque, 1},
    {"bits2x4", DType::kOpaque, 1},
    {"bits4x2", DType::kOpaque, 1},
};

struct StorageClass {
  std::string_view name, element;
};
constexpr StorageClass kStorageClasses[] = {
    {"BoolStorage", "bool"},
    {"ByteStorage", "uint8"},
    {"CharStorage", "int8"},
    {"ShortStorage", "int16"},
    {"IntStorage", "int32"},
    {"LongStorage", "int64"},
    {"HalfStorage", "float16"},
    {"FloatStorage", "float32"},
    {"DoubleStorage", "float64"},
    {"BFloat16Storage", "bfloat16"},
    {"ComplexFloatStorage", "complex64"},
    {"ComplexDoubleStorage", "complex128"},
    {"QInt8Storage", "qint8"},
    {"QUInt8Storage", "quint8"},
    {"QInt32Storage", "qint32"},
    {"QUInt4x2Storage", "quint4x2"},
    {"QUInt2x4Storage", "quint2x4"},
};

std::optional<TorchElement> element_named(std::string_view name) {
  const auto* const found = std::ranges::find(kElements, name, &TorchElement::name);
  if (found == std::end(kElements)) return std::nullopt;
  return *found;
}

// The name without the first of the prefixes that it has.
std::string_view without(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return {};
}

}  // namespace

std::optional<TorchElement> element_of_dtype(std::string_view global) {
  return element_named(without(global, {"torch."}));
}

std::optional<TorchElement> element_of_storage(std::string_view global) {
  const std::string_view name = without(global, {"torch.cuda.", "torch."});
  const auto* const found = std::ranges::find(kStorageClasses, name, &StorageClass::name);
  if (found == std::end(kStorageClasses)) return std::nullopt;
  return element_named(found->element);
}

std::optional<TorchElement> element_of_type(DType dtype) {
  if (dtype == DType::kOpaque || dtype == DType::kUint4 || dtype == DType::kUint2)
    return std::nullopt;
  // The first of a type is not the one of quantised values.
  const auto* const found = std::ranges::find(kElements, dtype, &TorchElement::dtype);
  if (found == std::end(kElements)) return std::nullopt;
  return *found;
}

std::string storage_class_of(const TorchElement& element) {
  const auto* const found =
      std::ranges::find(kStorageClasses, element.name, &StorageClass::element);
  return found == std::end(kStorageClasses) ? "" : std::string(found->name);
}

bool is_untyped_storage(std::string_view global) {
  return global == "torch.storage.UntypedStorage" || global == "torch.UntypedStorage";
}

}  // namespace cairn::inline v0::pytorch
