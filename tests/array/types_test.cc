// types_test.cc -- shapes, strides, buffers and arrays.
#include <cairn/error.h>
#include <cairn/types.h>
#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <memory>
#include <utility>

namespace cairn {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

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
  EXPECT_EQ(element_count(Shape{kMax}), kMax);
  EXPECT_EQ(element_count(Shape{kMax, 1, 1}), kMax);
}

TEST(Shape, ZeroWinsOverOverflow) {
  EXPECT_EQ(element_count(Shape{0}), 0);
  EXPECT_EQ(element_count(Shape{kMax, kMax, 0}), 0);
  EXPECT_EQ(element_count(Shape{0, kMax, kMax}), 0);
}

TEST(Shape, RefusesWhatCannotBeCounted) {
  EXPECT_EQ(code_of([] { element_count(Shape{kMax, 2}); }), Code::kOutOfRange);
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
  EXPECT_THAT(c_strides(Shape{2, 3, 4}, 8), testing::ElementsAre(96, 32, 8));
  EXPECT_THAT(c_strides({}, 8), testing::IsEmpty());
  EXPECT_THAT(c_strides(Shape{0, kMax, kMax}, 8), testing::SizeIs(3));  // no overflow trap
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
          .shape = {0, kMax, kMax},
          .strides = c_strides(Shape{0, kMax, kMax}, 4)};
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
      EXPECT_THAT(e.what(), testing::HasSubstr(std::to_string(size) + " bytes"));
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
  EXPECT_THAT(writable.strides, testing::ElementsAre(12, 4));
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
  EXPECT_EQ(code_of([] { Array::allocate(DType::kFloat64, {kMax}); }), Code::kOutOfRange);
  EXPECT_EQ(code_of([] { Array::allocate(DType::kFloat64, {kMax / 8, 2}); }), Code::kOutOfRange);
  EXPECT_EQ(code_of([] { Array::allocate(DType::kUint8, {kMax}); }), Code::kUnavailable);
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

}  // namespace
}  // namespace cairn
