// dtype_test.cc -- the element type table.
#include <cairn/types.h>
#include <gmock/gmock.h>

#include <set>
#include <string>

namespace cairn {
namespace {

struct Row {
  DType dtype;
  const char* name;
  std::size_t size;
  int bits;
  DTypeKind kind;
};

const Row kRows[] = {
    {DType::kBool, "bool", 1, 8, DTypeKind::kBool},
    {DType::kInt2, "int2", 1, 2, DTypeKind::kInt},
    {DType::kInt4, "int4", 1, 4, DTypeKind::kInt},
    {DType::kInt8, "int8", 1, 8, DTypeKind::kInt},
    {DType::kInt16, "int16", 2, 16, DTypeKind::kInt},
    {DType::kInt32, "int32", 4, 32, DTypeKind::kInt},
    {DType::kInt64, "int64", 8, 64, DTypeKind::kInt},
    {DType::kUint2, "uint2", 1, 2, DTypeKind::kUint},
    {DType::kUint4, "uint4", 1, 4, DTypeKind::kUint},
    {DType::kUint8, "uint8", 1, 8, DTypeKind::kUint},
    {DType::kUint16, "uint16", 2, 16, DTypeKind::kUint},
    {DType::kUint32, "uint32", 4, 32, DTypeKind::kUint},
    {DType::kUint64, "uint64", 8, 64, DTypeKind::kUint},
    {DType::kFloat4E2m1fn, "float4_e2m1fn", 1, 4, DTypeKind::kFloat},
    {DType::kFloat8E3m4, "float8_e3m4", 1, 8, DTypeKind::kFloat},
    {DType::kFloat8E4m3, "float8_e4m3", 1, 8, DTypeKind::kFloat},
    {DType::kFloat8E4m3fn, "float8_e4m3fn", 1, 8, DTypeKind::kFloat},
    {DType::kFloat8E4m3fnuz, "float8_e4m3fnuz", 1, 8, DTypeKind::kFloat},
    {DType::kFloat8E4m3b11fnuz, "float8_e4m3b11fnuz", 1, 8, DTypeKind::kFloat},
    {DType::kFloat8E5m2, "float8_e5m2", 1, 8, DTypeKind::kFloat},
    {DType::kFloat8E5m2fnuz, "float8_e5m2fnuz", 1, 8, DTypeKind::kFloat},
    {DType::kFloat8E8m0fnu, "float8_e8m0fnu", 1, 8, DTypeKind::kFloat},
    {DType::kBfloat16, "bfloat16", 2, 16, DTypeKind::kFloat},
    {DType::kFloat16, "float16", 2, 16, DTypeKind::kFloat},
    {DType::kFloat32, "float32", 4, 32, DTypeKind::kFloat},
    {DType::kFloat64, "float64", 8, 64, DTypeKind::kFloat},
    {DType::kComplex64, "complex64", 8, 64, DTypeKind::kComplex},
    {DType::kComplex128, "complex128", 16, 128, DTypeKind::kComplex},
};

TEST(DType, EveryTypeHasItsRow) {
  std::set<DType> seen;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(dtype_name(row.dtype), row.name);
    EXPECT_EQ(dtype_from_name(row.name), row.dtype);
    EXPECT_EQ(dtype_size(row.dtype), row.size);
    EXPECT_EQ(dtype_bits(row.dtype), row.bits);
    EXPECT_EQ(dtype_kind(row.dtype), row.kind);
    seen.insert(row.dtype);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kDTypeCount));
}

TEST(DType, OpaqueHasNoSizeAndIsNoName) {
  EXPECT_EQ(dtype_name(DType::kOpaque), "opaque");
  EXPECT_EQ(dtype_size(DType::kOpaque), 0U);
  EXPECT_EQ(dtype_kind(DType::kOpaque), DTypeKind::kOpaque);
}

TEST(DType, NamesMatchExactly) {
  for (const char* name :
       {"", "opaque", "float", "Float32", "float32 ", "float8", "<f4", "bool_", "int1"})
    EXPECT_EQ(dtype_from_name(name), std::nullopt) << name;
}

}  // namespace
}  // namespace cairn
