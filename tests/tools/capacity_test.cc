// Plans that cannot be carried out are refused, with the sizes.
#include <cairn/tools/source/capacity.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::TempDir;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(Capacity, SumsAndProductsStopAtTheGreatestNumber) {
  EXPECT_EQ(saturating_add(2, 3), 5U);
  EXPECT_EQ(saturating_add(kMost - 1, 1), kMost);
  EXPECT_EQ(saturating_add(kMost, kMost), kMost);
  EXPECT_EQ(saturating_multiply(7, 6), 42U);
  EXPECT_EQ(saturating_multiply(std::uint64_t{1} << 60U, 16), kMost);
}

TEST(Capacity, ArraysOfWhichHardlyAnythingIsStoredAreNotReadWhole) {
  TensorInfo tensor;
  tensor.name = "w";
  tensor.dtype_name = "uint8";
  const auto refused = [&](std::uint64_t bytes, std::uint64_t stored) {
    tensor.nbytes = bytes;
    tensor.shape = {static_cast<std::int64_t>(bytes)};
    tensor.stored_nbytes = stored;
    return !try_call([&] { return check_dense(tensor), true; });
  };
  constexpr std::uint64_t kTera = std::uint64_t{1} << 40U;
  EXPECT_FALSE(refused(std::uint64_t{1} << 36U, 0));
  EXPECT_TRUE(refused((std::uint64_t{1} << 36U) + 1, 0));
  EXPECT_FALSE(refused(kTera, kTera >> 16U)) << "as zstd stores zeros";
  EXPECT_TRUE(refused(kTera, (kTera >> 16U) - 1));
  EXPECT_THAT(
      [&] { check_dense(tensor); },
      FailsWith(
          Code::kFailedPrecondition,
          "w: uint8 elements of shape (1099511627776,) are 1.0 TiB, of which 16 MiB are stored"));
}

TEST(Capacity, ChunksOfWhichHardlyAnyIsStoredAreNotAskedFor) {
  TensorInfo tensor;
  tensor.name = "w";
  tensor.dtype_name = "uint8";
  tensor.shape = {1 << 21, 3};
  tensor.chunk_shape = {2, 2};
  tensor.nbytes = 3 << 21;
  tensor.stored_nbytes = 1 << 17;
  EXPECT_NO_THROW(check_dense(tensor));
  --tensor.stored_nbytes;
  EXPECT_THAT(
      [&] { check_dense(tensor); },
      FailsWith(Code::kFailedPrecondition, "are 2097152 chunks, of which 128 KiB are stored"));
  tensor.chunk_shape = {4, 3};
  EXPECT_NO_THROW(check_dense(tensor)) << "few enough";
}

TEST(Capacity, OutputIsComparedWithTheRoomThereIs) {
  const TempDir dir;
  EXPECT_NO_THROW(check_space(dir / "not/there/yet", 1, Packing::kRaw));
  EXPECT_THAT([&] { check_space(dir / "not/there/yet", std::uint64_t{1} << 60U, Packing::kRaw); },
              FailsWith(Code::kFailedPrecondition,
                        "not/there/yet: the output needs 1.0 EiB, the file system has "));
  EXPECT_THAT([&] { check_space(dir / "x", kMost, Packing::kCompressed); },
              FailsWith(Code::kFailedPrecondition,
                        "x: the output needs 16 EiB before compression, the file system has "));
}

}  // namespace
}  // namespace cairn
