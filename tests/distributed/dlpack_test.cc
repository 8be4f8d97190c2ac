// dlpack_test.cc -- tensors of other frameworks as shards: types, strides, owners, and what is
// refused. The structs are DLPack's ABI.
#include <cairn/array/box.h>
#include <cairn/dlpack.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace cairn {
namespace {

using cairn::testing::FailsWith;

struct DlDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct Tensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct Managed {
  Tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(Managed*);
};
struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
struct Versioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  Tensor dl_tensor;
};

struct Values {
  std::vector<float> data = std::vector<float>(24);
  std::vector<std::int64_t> shape = {2, 3};
  std::vector<std::int64_t> strides = {1, 4};  // every other one of a Fortran array's rows
  Values() { std::iota(data.begin(), data.end(), 0.0F); }
  Tensor tensor() { return {data.data(), {1, 0}, 2, {2, 32, 1}, shape.data(), strides.data(), 8}; }
};

int deleted = 0;

TEST(Dlpack, AViewHasTheTensorsStridesAndItsOwnerIsReleasedOnce) {
  Values values;
  Managed managed{values.tensor(), nullptr, [](Managed* /*self*/) { ++deleted; }};
  deleted = 0;
  {
    const HostMemory memory = take_dlpack(&managed);
    const HostMemory kept =
        memory;  // NOLINT(performance-unnecessary-copy-initialization): two owners
    EXPECT_EQ(memory.view.dtype, DType::kFloat32);
    EXPECT_EQ(memory.view.shape, (Shape{2, 3}));
    Array out = Array::allocate(DType::kFloat32, {2, 3});
    copy_elements(memory.view, out.mutable_view());
    float seen[6];
    std::memcpy(seen, out.bytes().data(), sizeof(seen));
    EXPECT_EQ((std::vector<float>(seen, seen + 6)), (std::vector<float>{2, 6, 10, 3, 7, 11}));
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
}

TEST(Dlpack, IsASourceOfShards) {
  Values values;
  values.strides = {3, 1};
  Managed managed{values.tensor(), nullptr, nullptr};  // nothing to release
  ShardedArray array;
  array.shape = {2, 3};
  array.shards.push_back({0, Box::whole({2, 3}), 0, take_dlpack(&managed)});
  const Array whole = gather_shards(array);
  EXPECT_EQ(std::memcmp(whole.bytes().data(), values.data.data() + 2, 24), 0);
}

TEST(Dlpack, VersionsAndFlags) {
  Values values;
  Versioned managed{{1, 3}, nullptr, [](Versioned* /*self*/) { ++deleted; }, 0, values.tensor()};
  deleted = 0;
  static_cast<void>(take_dlpack(&managed));
  EXPECT_EQ(deleted, 1);
  managed.dl_tensor.dtype = {0, 4, 1};
  EXPECT_THAT([&] { static_cast<void>(take_dlpack(&managed)); },
              FailsWith(Code::kInvalidArgument, "packed int4"));
  managed.flags = 4;
  EXPECT_EQ(take_dlpack(&managed).view.dtype, DType::kInt4);
  managed.version.major = 2;
  EXPECT_THAT([&] { static_cast<void>(take_dlpack(&managed)); },
              FailsWith(Code::kUnimplemented, "version 2"));
  EXPECT_EQ(deleted, 2);  // what was refused stays the caller's
}

TEST(Dlpack, EveryType) {
  const struct {
    std::uint8_t code;
    std::uint8_t bits;
    DType dtype;
  } kCases[] = {{0, 8, DType::kInt8},           {0, 16, DType::kInt16},
                {0, 32, DType::kInt32},         {0, 64, DType::kInt64},
                {1, 8, DType::kUint8},          {1, 16, DType::kUint16},
                {1, 32, DType::kUint32},        {1, 64, DType::kUint64},
                {2, 16, DType::kFloat16},       {2, 32, DType::kFloat32},
                {2, 64, DType::kFloat64},       {4, 16, DType::kBfloat16},
                {5, 64, DType::kComplex64},     {5, 128, DType::kComplex128},
                {6, 8, DType::kBool},           {7, 8, DType::kFloat8E3m4},
                {8, 8, DType::kFloat8E4m3},     {9, 8, DType::kFloat8E4m3b11fnuz},
                {10, 8, DType::kFloat8E4m3fn},  {11, 8, DType::kFloat8E4m3fnuz},
                {12, 8, DType::kFloat8E5m2},    {13, 8, DType::kFloat8E5m2fnuz},
                {14, 8, DType::kFloat8E8m0fnu}, {0, 2, DType::kInt2},
                {0, 4, DType::kInt4},           {1, 2, DType::kUint2},
                {1, 4, DType::kUint4},          {17, 4, DType::kFloat4E2m1fn}};
  EXPECT_EQ(std::size(kCases), static_cast<std::size_t>(kDTypeCount));
  const std::byte element{};
  for (const auto& c : kCases) {
    const ArrayView view =
        dlpack_view({.data = &element, .type_code = c.code, .type_bits = c.bits, .padded = true});
    EXPECT_EQ(view.dtype, c.dtype);
    EXPECT_EQ(view.element_size, dtype_size(c.dtype));
    EXPECT_TRUE(view.shape.empty());
  }
}

TEST(Dlpack, RefusesUnreadableTensors) {
  const std::byte element{};
  const std::int64_t shape[] = {2, 3};
  const std::int64_t negative[] = {2, -3};
  const std::int64_t huge[] = {std::numeric_limits<std::int64_t>::max() / 2, 1};
  const std::int64_t stride[] = {std::numeric_limits<std::int64_t>::max(), 1};
  const DlpackTensor good{
      .data = &element, .type_code = 2, .type_bits = 32, .rank = 2, .shape = shape};
  const auto with = [&](auto change) {
    DlpackTensor tensor = good;
    change(tensor);
    return tensor;
  };
  const struct {
    DlpackTensor tensor;
    const char* what;
  } kBad[] = {{with([](auto& t) { t.device_type = 2; }), "device of type 2"},
              {with([](auto& t) { t.type_code = 3; }), "type code 3"},
              {with([](auto& t) { t.type_code = 15; }), "type code 15"},
              {with([](auto& t) { t.type_code = 200; }), "type code 200"},
              {with([](auto& t) { t.type_bits = 24; }), "24 bits"},
              {with([](auto& t) { t.lanes = 4; }), "4 lanes"},
              {with([](auto& t) { t.rank = -1; }), "rank -1"},
              {with([](auto& t) { t.shape = nullptr; }), "no shape"},
              {with([&](auto& t) { t.shape = negative; }), "(2, -3)"},
              {with([&](auto& t) { t.shape = huge; }), "exceeds the address space"},
              {with([&](auto& t) { t.strides = stride; }), "stride 9223372036854775807"},
              {with([](auto& t) { t.data = nullptr; }), "no memory"}};
  for (const auto& bad : kBad)
    EXPECT_THAT([&] { static_cast<void>(dlpack_view(bad.tensor)); },
                FailsWith(Code::kInvalidArgument, bad.what));
  const std::int64_t none[] = {0, 3};
  EXPECT_NO_THROW(static_cast<void>(dlpack_view(with([&](auto& t) {
    t.data = nullptr;
    t.shape = none;
  }))));
}

}  // namespace
}  // namespace cairn
