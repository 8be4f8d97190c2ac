// types_test.cc -- shapes, strides, buffers and arrays.
#include <cairn/error.h>
#include <cairn/types.h>
#include <gmock/gmock.h>

#include <complex>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

template <class F>
Code code_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  ADD_FAILURE() << "no error was thrown";
  return Code::kIo;
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count(Shape{5}), 5);
  EXPECT_EQ(element_count(Shape{3, 4, 5}), 60);
  EXPECT_EQ(element_count(Shape{kLargest}), kLargest);
  EXPECT_EQ(element_count(Shape{kLargest, 1, 1}), kLargest);
}

TEST(Shape, ZeroWinsOverOverflow) {
  EXPECT_EQ(element_count(Shape{0}), 0);
  EXPECT_EQ(element_count(Shape{kLargest, kLargest, 0}), 0);
  EXPECT_EQ(element_count(Shape{0, kLargest, kLargest}), 0);
}

TEST(Shape, RefusesWhatCannotBeCounted) {
  EXPECT_EQ(code_of([] { element_count(Shape{kLargest, 2}); }), Code::kOutOfRange);
  EXPECT_EQ(code_of([] {
              element_count(Shape{std::int64_t{1} << 32, std::int64_t{1} << 31});
            }),
            Code::kOutOfRange);
  EXPECT_EQ(code_of([] { element_count(Shape{2, -1}); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([] { element_count(Shape{0, -1}); }), Code::kInvalidArgument);
}

TEST(Shape, PrintsAsPythonDoes) {
  EXPECT_EQ(shape_text({}), "()");
  EXPECT_EQ(shape_text(Shape{3}), "(3,)");
  EXPECT_EQ(shape_text(Shape{3, 4}), "(3, 4)");
}

TEST(Shape, Strides) {
  EXPECT_THAT(c_strides(Shape{2, 3, 4}, 8), ::testing::ElementsAre(96, 32, 8));
  EXPECT_THAT(c_strides({}, 8), ::testing::IsEmpty());
  EXPECT_THAT(c_strides(Shape{0, kLargest, kLargest}, 8),
              ::testing::SizeIs(3));  // no overflow trap
}

TEST(View, KnowsWhetherItIsContiguous) {
  ArrayView view{.data = nullptr,
                 .dtype = DType::kInt32,
                 .element_size = 4,
                 .shape = {2, 3},
                 .strides = {12, 4}};
  EXPECT_TRUE(view.contiguous());
  view.strides = {4, 8};
  EXPECT_FALSE(view.contiguous());
  view = {.data = nullptr,
          .dtype = DType::kInt32,
          .element_size = 4,
          .shape = {1, 3},
          .strides = {999, 4}};
  EXPECT_TRUE(view.contiguous()) << "the stride of an extent of 1 is never used";
  view = {.data = nullptr,
          .dtype = DType::kInt32,
          .element_size = 4,
          .shape = {0, kLargest, kLargest},
          .strides = c_strides(Shape{0, kLargest, kLargest}, 4)};
  EXPECT_TRUE(view.contiguous());
}

TEST(Buffer, IsAlignedAtEverySize) {
  for (const std::size_t size : {1UL, 63UL, 4096UL, (2UL << 20) - 1}) {
    const Buffer buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U) << size;
  }
  for (const std::size_t size : {2UL << 20, (2UL << 20) + 1, 7UL << 20}) {
    Buffer buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % (2UL << 20), 0U) << size;
    std::memset(buffer.data(), 7, size);  // every byte is really there
    EXPECT_EQ(buffer.data()[size - 1], std::byte{7});
  }
}

TEST(Buffer, MayBeEmpty) {
  const Buffer buffer(0);
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST(Buffer, MovesItsMemory) {
  Buffer a(3UL << 20);
  std::byte* const data = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.size(), 0U);  // NOLINT(bugprone-use-after-move): this is what is tested
  Buffer c(16);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size(), 3UL << 20);
  c = std::move(*&c);
  EXPECT_EQ(c.data(), data);
}

TEST(Buffer, SaysHowMuchItCouldNotGet) {
  for (const std::size_t size : {std::size_t{1} << 62U, std::numeric_limits<std::size_t>::max()}) {
    try {
      const Buffer buffer(size);
      ADD_FAILURE() << "got " << size;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUnavailable);
      EXPECT_THAT(e.what(), ::testing::HasSubstr(std::to_string(size) + " bytes"));
    }
  }
}

TEST(Array, DefaultHoldsNothing) {
  Array array;
  EXPECT_EQ(array.bytes().size(), 0U);
  EXPECT_EQ(array.shape(), Shape{0});
  EXPECT_NO_THROW((void)array.mutable_view());
}

TEST(Array, IsWrittenOnceAndThenShared) {
  Array array = Array::allocate(DType::kInt32, {2, 3});
  EXPECT_EQ(array.bytes().size(), 24U);
  const MutableArrayView writable = array.mutable_view();
  EXPECT_EQ(writable.element_size, 4U);
  EXPECT_THAT(writable.strides, ::testing::ElementsAre(12, 4));
  std::memset(writable.data, 5, 24);
  const Array shared =
      array;  // NOLINT(performance-unnecessary-copy-initialization): sharing is the point
  EXPECT_EQ(shared.bytes().data(), array.bytes().data());
  EXPECT_EQ(code_of([&] { (void)array.mutable_view(); }), Code::kFailedPrecondition);
  EXPECT_EQ(shared.view().data[23], std::byte{5});
}

TEST(Array, KeepsItsOwnerAliveAndIsReadOnly) {
  auto owner = std::make_shared<int>(42);
  const std::weak_ptr<int> watch = owner;
  const auto* data = reinterpret_cast<const std::byte*>(owner.get());
  {
    Array array(DType::kInt32, 4, {}, std::move(owner), data);
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(array.bytes().size(), 4U);
    EXPECT_EQ(code_of([&] { (void)array.mutable_view(); }), Code::kFailedPrecondition);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Array, HoldsOpaqueElements) {
  const Array array = Array::allocate(DType::kOpaque, 12, {3});
  EXPECT_EQ(array.bytes().size(), 36U);
  EXPECT_EQ(code_of([] { Array::allocate(DType::kOpaque, {3}); }), Code::kInvalidArgument);
  EXPECT_EQ(Array::allocate(DType::kOpaque, 0, {3}).bytes().size(), 0U);
}

TEST(Array, RefusesWhatCannotBeAddressed) {
  EXPECT_EQ(code_of([] { Array::allocate(DType::kFloat64, {kLargest}); }), Code::kOutOfRange);
  EXPECT_EQ(code_of([] {
              Array::allocate(DType::kFloat64, {kLargest / 8, 2});
            }),
            Code::kOutOfRange);
  EXPECT_EQ(code_of([] { Array::allocate(DType::kUint8, {kLargest}); }), Code::kUnavailable);
}

TEST(Array, TenThousandSmallOnesShareNothing) {
  std::vector<Array> arrays;
  for (int i = 0; i < 10000; ++i) {
    arrays.push_back(Array::allocate(DType::kUint8, {64}));
    std::memset(arrays.back().mutable_view().data, i & 0xff, 64);
  }
  for (int i = 0; i < 10000; ++i)
    EXPECT_EQ(std::to_integer<int>(arrays[static_cast<std::size_t>(i)].bytes()[63]), i & 0xff);
}

TEST(Array, CopiesElements) {
  const std::vector<double> values{1, 2, 3, 4, 5, 6};
  const Array array = Array::from<double>(values, {2, 3});
  EXPECT_EQ(array.dtype(), DType::kFloat64);
  EXPECT_EQ(array.shape(), (Shape{2, 3}));
  EXPECT_NE(array.bytes().data(), std::as_bytes(std::span(values)).data());
  EXPECT_THAT(array.as<double>(), ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(Array::from<bool>({true, false}, {2}).dtype(), DType::kBool);
  EXPECT_EQ(Array::from<std::int16_t>({-1}, {1}).dtype(), DType::kInt16);
  EXPECT_EQ(Array::from<unsigned long long>({1}, {}).dtype(), DType::kUint64);
  EXPECT_EQ(Array::from<std::complex<float>>({{1, 2}}, {1}).dtype(), DType::kComplex64);
  EXPECT_EQ(Array::from<float>({}, {0, 7}).bytes().size(), 0U);
}

TEST(Array, RefusesAnotherNumberOfElements) {
  EXPECT_THAT(
      [] {
        Array::from<float>({1, 2, 3}, {2, 2});
      },
      FailsWith(Code::kInvalidArgument,
                "3 elements do not fill an array of shape (2, 2): expected 4"));
  EXPECT_THAT([] { Array::from<float>({1, 2, 3}, {-3}); }, FailsWith(Code::kInvalidArgument));
  EXPECT_THAT([] { Array::from<float>({1}, {kLargest, 2}); }, FailsWith(Code::kOutOfRange));
}

TEST(Array, TypedAccessNamesBothTypes) {
  Array array = Array::from<float>({1, 2}, {2});
  array.mutable_as<float>()[1] = 7;
  EXPECT_THAT(array.as<float>(), ::testing::ElementsAre(1, 7));
  EXPECT_THAT([&] { (void)array.as<double>(); },
              FailsWith(Code::kInvalidArgument, "are float32, not float64"));
  EXPECT_THAT([&] { (void)array.mutable_as<int>(); },
              FailsWith(Code::kInvalidArgument, "are float32, not int32"));
  const Array shared = array;
  EXPECT_THAT([&] { (void)array.mutable_as<float>(); }, FailsWith(Code::kFailedPrecondition));
  const Array opaque = Array::allocate(DType::kOpaque, 4, {1});
  EXPECT_THAT([&] { (void)opaque.as<float>(); }, FailsWith(Code::kInvalidArgument, "are opaque"));
}

TEST(Array, ElementsThatAFileDoesNotAlignAreRefused) {
  const auto bytes = std::make_shared<Buffer>(9);
  std::memset(bytes->data(), 0, bytes->size());
  const Array array(DType::kInt32, 4, {2}, bytes, bytes->data() + 1);
  EXPECT_THAT([&] { (void)array.as<std::int32_t>(); },
              FailsWith(Code::kFailedPrecondition, "not aligned to 4 bytes"));
}

TEST(Array, CastsAsNumPyDoes) {
  const Array array = Array::from<float>({1.5F, -2.75F, 300}, {3});
  const Array bytes = array.cast(DType::kInt8);
  EXPECT_THAT(bytes.as<std::int8_t>(), ::testing::ElementsAre(1, -2, 44));
  EXPECT_EQ(array.cast(DType::kBfloat16).bytes().size(), 6U);
  EXPECT_EQ(array.cast(DType::kFloat32).bytes().data(), array.bytes().data());
  EXPECT_THAT([&] { (void)array.cast(DType::kOpaque); },
              FailsWith(Code::kInvalidArgument, "float32 elements cannot be cast to opaque"));
  const Array opaque = Array::allocate(DType::kOpaque, 4, {1});
  EXPECT_THAT([&] { (void)opaque.cast(DType::kOpaque); }, FailsWith(Code::kInvalidArgument));
}

TEST(Array, ComparesTypeShapeAndBytes) {
  const Array array = Array::from<float>({1, 2}, {2});
  EXPECT_EQ(array, Array::from<float>({1, 2}, {2}));
  EXPECT_NE(array, Array::from<float>({1, 3}, {2}));
  EXPECT_NE(array, Array::from<float>({1, 2}, {2, 1}));
  EXPECT_NE(Array::from<std::int32_t>({0}, {1}), Array::from<float>({0}, {1}));
  EXPECT_NE(Array::allocate(DType::kOpaque, 0, {1}), Array::allocate(DType::kUint8, {0}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Array::from<float>({nan}, {1}), Array::from<float>({nan}, {1}));
  EXPECT_NE(Array::from<float>({0.0F}, {1}), Array::from<float>({-0.0F}, {1}));
  EXPECT_EQ(Array(), Array());
}

TEST(TypedArray, IsARangeOfItsElements) {
  TypedArray<int> copy(Array::from<int>({3, 4}, {2}));
  const TypedArray<int> array = std::exchange(copy, TypedArray<int>(Array::from<int>({}, {0})));
  EXPECT_THAT(array, ::testing::ElementsAre(3, 4));
  EXPECT_EQ(array[1], 4);
  EXPECT_EQ(std::span<const int>(array).size(), 2U);
  EXPECT_EQ(array.shape(), Shape{2});
  EXPECT_THAT([&] { TypedArray<float>{Array(array)}; }, FailsWith(Code::kInvalidArgument));
}

}  // namespace
}  // namespace cairn
