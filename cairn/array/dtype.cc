// dtype.cc -- the table of element types: names, sizes, kinds.
#include <cairn/types.h>

#include <array>

namespace cairn::inline v0 {
namespace {

struct Row {
  std::string_view name;
  std::uint8_t size;
  std::uint8_t bits;
  DTypeKind kind;
};

// In the order of DType.
constexpr std::array<Row, kDTypeCount + 1> kRows{{
    {"bool", 1, 8, DTypeKind::kBool},
    {"int2", 1, 2, DTypeKind::kInt},
    {"int4", 1, 4, DTypeKind::kInt},
    {"int8", 1, 8, DTypeKind::kInt},
    {"int16", 2, 16, DTypeKind::kInt},
    {"int32", 4, 32, DTypeKind::kInt},
    {"int64", 8, 64, DTypeKind::kInt},
    {"uint2", 1, 2, DTypeKind::kUint},
    {"uint4", 1, 4, DTypeKind::kUint},
    {"uint8", 1, 8, DTypeKind::kUint},
    {"uint16", 2, 16, DTypeKind::kUint},
    {"uint32", 4, 32, DTypeKind::kUint},
    {"uint64", 8, 64, DTypeKind::kUint},
    {"float4_e2m1fn", 1, 4, DTypeKind::kFloat},
    {"float8_e3m4", 1, 8, DTypeKind::kFloat},
    {"float8_e4m3", 1, 8, DTypeKind::kFloat},
    {"float8_e4m3fn", 1, 8, DTypeKind::kFloat},
    {"float8_e4m3fnuz", 1, 8, DTypeKind::kFloat},
    {"float8_e4m3b11fnuz", 1, 8, DTypeKind::kFloat},
    {"float8_e5m2", 1, 8, DTypeKind::kFloat},
    {"float8_e5m2fnuz", 1, 8, DTypeKind::kFloat},
    {"float8_e8m0fnu", 1, 8, DTypeKind::kFloat},
    {"bfloat16", 2, 16, DTypeKind::kFloat},
    {"float16", 2, 16, DTypeKind::kFloat},
    {"float32", 4, 32, DTypeKind::kFloat},
    {"float64", 8, 64, DTypeKind::kFloat},
    {"complex64", 8, 64, DTypeKind::kComplex},
    {"complex128", 16, 128, DTypeKind::kComplex},
    {"opaque", 0, 0, DTypeKind::kOpaque},
}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::size_t dtype_size(DType dtype) { return row(dtype).size; }
int dtype_bits(DType dtype) { return row(dtype).bits; }
DTypeKind dtype_kind(DType dtype) { return row(dtype).kind; }

}  // namespace cairn::inline v0
