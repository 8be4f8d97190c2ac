// streamed_test.cc -- parts of compressed chunks too large to be decoded whole.
#include <cairn/array/box.h>
#include <cairn/io/file.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/read/value_streams.h>
#include <gtest/gtest.h>
#include <tests/support/damage.h>
#include <tests/support/matchers.h>
#include <tests/zarr/build_array.h>

#include <algorithm>
#include <memory>
#include <random>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;
using testing::ArrayRecipe;
using testing::BuiltArray;
using testing::Packing;

constexpr std::uint64_t kSmallBudget = 4096;

const ArrayRecipe kRecipes[] = {
    {.shape = {30, 40, 50}, .chunks = {30, 40, 50}, .packing = Packing::kZstd},
    {.shape = {30, 40, 50}, .chunks = {30, 40, 50}, .packing = Packing::kZstdChecksum},
    {.shape = {30, 40, 50}, .chunks = {16, 40, 32}, .packing = Packing::kZstd},
    {.zarr_format = 3,
     .shape = {300, 70},
     .chunks = {300, 70},
     .inner = {300, 70},
     .packing = Packing::kZstd},
    {.shape = {100'000}, .chunks = {100'000}, .packing = Packing::kZstd},
    {.zarr_format = 3,
     .shape = {300, 70},
     .chunks = {300, 70},
     .inner = {300, 70},
     .packing = Packing::kCrc32c},
    {.zarr_format = 3, .shape = {30, 40, 50}, .chunks = {16, 40, 32}, .packing = Packing::kCrc32c},
};

class Streamed : public ::testing::TestWithParam<ArrayRecipe> {
 protected:
  Streamed() : array_(GetParam()), shape_(GetParam().shape) {}

  BuiltArray array_;
  Shape shape_;
  ByteBudget budget_{kSmallBudget};
  Executor executor_{2};
  ValueStreams streams_;
  ReadContext context_{.executor = &executor_, .budget = &budget_, .streams = &streams_};
};

TEST_P(Streamed, PartsInAnyOrderHoldWhatWasStored) {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    Box box;
    for (const std::int64_t extent : shape_) {
      box.origin.push_back(std::uniform_int_distribution<std::int64_t>(0, extent - 1)(random));
      box.shape.push_back(
          std::uniform_int_distribution<std::int64_t>(1, extent - box.origin.back())(random));
    }
    EXPECT_TRUE(array_.read(box, context_) == array_.expected(box)) << box_text(box);
  }
}

TEST_P(Streamed, PartsInOrderHoldWhatWasStored) {
  const std::int64_t step = shape_[0] / 7 + 1;
  Box box = Box::whole(shape_);
  for (box.origin[0] = 0; box.origin[0] < shape_[0]; box.origin[0] += step) {
    box.shape[0] = std::min(step, shape_[0] - box.origin[0]);
    EXPECT_TRUE(array_.read(box, context_) == array_.expected(box)) << box_text(box);
  }
}

TEST_P(Streamed, StridedDestinationsAndVerifyingWorkToo) {
  Bytes memory(array_.elements().size());
  const Shape reversed(shape_.rbegin(), shape_.rend());
  MutableArrayView view = make_view(MutableByteView(memory), DType::kUint32, reversed);
  std::reverse(view.shape.begin(), view.shape.end());
  std::reverse(view.strides.begin(), view.strides.end());
  array_.open().read(Box::whole(shape_), view, MissingChunk::kError, context_);
  Bytes out(memory.size());
  copy_elements(cairn::as_const(view), make_view(MutableByteView(out), DType::kUint32, shape_));
  EXPECT_TRUE(out == array_.elements());

  const CheckedArray report = verify_array(array_.open(), "a", MissingChunk::kError, context_);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(!report.unprotected, GetParam().packing != Packing::kZstd);
}

INSTANTIATE_TEST_SUITE_P(Recipes, Streamed, ::testing::ValuesIn(kRecipes), [](const auto& recipe) {
  return "recipe" + std::to_string(recipe.index);
});

TEST(StreamedDamage, NothingUncheckedIsHandedOutOfAFrameWithAChecksum) {
  const BuiltArray array({.shape = {5000}, .chunks = {5000}, .packing = Packing::kZstdChecksum});
  const Bytes good = read_file(array.path("0"));
  ByteBudget budget(kSmallBudget);
  const Box first{{0}, {10}};
  const Bytes expected = array.expected(first);
  EXPECT_TRUE(array.read(first, {.budget = &budget}) == expected);
  for (std::size_t bit = 0; bit < 8 * good.size(); bit += 97) {
    cairn::testing::put_file(array.path("0"), cairn::testing::with_bit_flipped(good, bit));
    try {
      EXPECT_TRUE(array.read(first, {.budget = &budget}) == expected) << bit;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kDataLoss) << e.message();
    }
  }
  for (const std::size_t size : {good.size() - 1, good.size() / 2, std::size_t{5}}) {
    cairn::testing::put_file(array.path("0"), ByteView(good).first(size));
    EXPECT_THAT([&] { array.read(first, {.budget = &budget}); },
                FailsWith(Code::kDataLoss, "chunk 0"))
        << size;
  }
}

TEST(ValueStreams, FindTheDecoderThatStandsNearestBefore) {
  const BuiltArray array({.shape = {5000}, .chunks = {5000}, .packing = Packing::kZstd});
  const StreamedValue value{array.path("0"), 0, read_file(array.path("0")).size(), 20'000};
  ValueStreams streams;
  const OpenFileFn open = [&] { return std::make_shared<const File>(File::open(value.file)); };
  const std::vector<ByteStep> steps{CompressStep{Codec::kZstd}};
  const auto take = [&](const StreamedValue& from, std::uint64_t begin, IfChecksum policy) {
    return streams.take(from, steps, open, begin, policy, std::uint64_t{1} << 30U);
  };
  auto one = take(value, 0, IfChecksum::kRefuse);
  ASSERT_TRUE(one);
  one->skip(1000);
  const ChainStream* kept = one.get();
  streams.keep(value, std::move(one));
  auto other = take(value, 999, IfChecksum::kRefuse);  // behind it: a new one
  EXPECT_NE(other.get(), kept);
  EXPECT_EQ(other->position(), 999U);
  auto again = take(value, 1500, IfChecksum::kRefuse);
  EXPECT_EQ(again.get(), kept);
  EXPECT_EQ(again->position(), 1500U);
  // not what the frame says
  EXPECT_FALSE(take({value.file, 0, value.length, 20'001}, 0, IfChecksum::kRefuse));
}

}  // namespace
}  // namespace cairn::zarr
