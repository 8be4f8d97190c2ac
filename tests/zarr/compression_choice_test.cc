// compression_choice_test.cc -- the choice between compressed and raw chunks, on a clock that the
// test sets.
#include <cairn/zarr/write/compression_choice.h>

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace cairn::zarr {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kMega = 1'000'000;
constexpr std::uint64_t kChunk = 16 * kMega;
// As zstd on one core: bfloat16 weights at 500 MB/s, zeros at 10 GB/s.
constexpr CompressionEstimate kWeights{.is_worthwhile = true, .ratio = 0.78, .coding_time = 2};
constexpr CompressionEstimate kZeros{.is_worthwhile = true, .ratio = 0.001, .coding_time = 0.1};
constexpr StoreExpectation kLocal{};
constexpr StoreExpectation kNetwork{.rate = 1e8, .is_ceiling = true};

class CompressionChoiceTest : public ::testing::Test {
 protected:
  // Begins again with two threads.
  CompressionChoice& make(StoreExpectation store = kLocal, std::size_t threads = 2) {
    choice_ = std::make_unique<CompressionChoice>(threads, store, [this] { return now_; });
    return *choice_;
  }
  // One thread stores a raw chunk at `rate` MB/s while no other is at work.
  void store_raw(std::uint64_t bytes, std::uint64_t rate) {
    CompressionChoice::Work work(choice_.get());
    now_ += nanoseconds(bytes * 1000 / rate);
    work.finish({.raw_bytes = bytes});
  }
  // One thread compresses a chunk to 78 % and then stores it.
  void store_compressed(std::uint64_t bytes, nanoseconds coding, std::uint64_t rate) {
    CompressionChoice::Work work(choice_.get());
    {
      const CompressionChoice::Coding coder(*choice_);
      now_ += coding;
    }
    work.begin_storing();
    const std::uint64_t size = bytes * 78 / 100;
    now_ += nanoseconds(size * 1000 / rate);
    work.finish({.compressed_bytes = bytes,
                 .compressed_size = size,
                 .coding = coding,
                 .elapsed_coding = coding});
  }
  [[nodiscard]] bool compresses(const CompressionEstimate& estimate) {
    return choice_->should_compress(estimate, kChunk);
  }

  nanoseconds now_{1000};
  std::unique_ptr<CompressionChoice> choice_;
};

TEST_F(CompressionChoiceTest, ExpectsALocalDiskToBeFasterThanTheCoder) {
  make();
  EXPECT_FALSE(compresses(kWeights));
  EXPECT_TRUE(compresses(kZeros));
  EXPECT_FALSE(compresses({}));
  make(kLocal, 16);  // which compress 8 GB/s together
  EXPECT_TRUE(compresses(kWeights));
}

TEST_F(CompressionChoiceTest, ExpectsANetworkToBeSlower) {
  make(kNetwork);
  EXPECT_TRUE(compresses(kWeights));
  EXPECT_FALSE(compresses({.is_worthwhile = false, .ratio = 0.93, .coding_time = 0.1}));
  // The page cache takes bytes at once, also for a slow network.
  for (int i = 0; i < 20; ++i) store_raw(kChunk, 5000);
  EXPECT_TRUE(compresses(kWeights));
  EXPECT_DOUBLE_EQ(choice_->report().store_rate, 1e8);
}

TEST_F(CompressionChoiceTest, FollowsTheMeasuredRateOfTheStore) {
  make();
  store_raw(kChunk, 100);
  EXPECT_TRUE(compresses(kWeights)) << choice_->report().store_rate;
  for (int i = 0; i < 20; ++i) store_raw(kChunk, 3000);
  EXPECT_FALSE(compresses(kWeights)) << choice_->report().store_rate;
  for (int i = 0; i < 20; ++i) store_raw(kChunk, 1000);
  EXPECT_FALSE(compresses(kWeights)) << choice_->report().store_rate;
  EXPECT_NEAR(choice_->report().store_rate, 1e9, 5e7);
  for (int i = 0; i < 20; ++i) store_raw(kChunk, 200);
  EXPECT_TRUE(compresses(kWeights)) << choice_->report().store_rate;
}

// A single thread cannot store while it compresses.
TEST_F(CompressionChoiceTest, CountsTheTimeOfBothForOneThread) {
  make(kLocal, 1);
  for (int i = 0; i < 20; ++i) store_raw(kChunk, 100);
  EXPECT_FALSE(compresses(kWeights));
  for (int i = 0; i < 20; ++i) store_raw(kChunk, 25);
  EXPECT_TRUE(compresses(kWeights));
}

TEST_F(CompressionChoiceTest, EstimatesSmallChunksOnlyForASlowStore) {
  EXPECT_TRUE(make(kLocal).stores_small_as_is());
  EXPECT_FALSE(make(kNetwork).stores_small_as_is());
  make();
  for (int i = 0; i < 20; ++i) store_raw(kChunk, 100);
  EXPECT_FALSE(choice_->stores_small_as_is());
}

TEST_F(CompressionChoiceTest, AddsTheThreadsThatStoreTogether) {
  make();
  for (int i = 0; i < 20; ++i) {
    CompressionChoice::Work one(choice_.get());
    CompressionChoice::Work other(choice_.get());
    now_ += milliseconds(16);  // 2 * 16 MB
    one.finish({.raw_bytes = kChunk});
    other.finish({.incompressible_bytes = kChunk});
  }
  EXPECT_NEAR(choice_->report().store_rate, 2e9, 1e8);
  make();
  for (int i = 0; i < 20; ++i) {
    CompressionChoice::Work one(choice_.get());
    CompressionChoice::Work other(choice_.get());
    const CompressionChoice::Coding coder(*choice_);  // leaves the store to the first one
    now_ += milliseconds(16);
    one.finish({.raw_bytes = kChunk});
  }
  EXPECT_NEAR(choice_->report().store_rate, 1e9, 5e7);
}

TEST_F(CompressionChoiceTest, MeasuresTheStoreByCompressedChunksThatWaitForIt) {
  make();
  store_raw(kChunk, 50);
  ASSERT_TRUE(compresses(kWeights));
  for (int i = 0; i < 20; ++i) store_compressed(kChunk, milliseconds(32), 200);
  EXPECT_NEAR(choice_->report().store_rate, 2e8, 1e7);
  // The store keeps the chunks in a buffer, so the time says nothing about it.
  for (int i = 0; i < 20; ++i) store_compressed(kChunk, milliseconds(32), 20'000);
  EXPECT_NEAR(choice_->report().store_rate, 2e8, 1e7);
}

// While the coder is the slower one, a raw chunk now and then shows whether the store has become
// faster.
TEST_F(CompressionChoiceTest, ProbesTheStore) {
  make();
  for (int i = 0; i < 10; ++i) store_raw(kChunk, 200);
  int compressed = 0;
  while (compresses(kWeights) && compressed < 100) {
    store_compressed(kChunk, milliseconds(32), 20'000);
    ++compressed;
  }
  EXPECT_EQ(compressed, 16);
  store_raw(kChunk, 200);
  EXPECT_TRUE(compresses(kWeights));
  for (int i = 0; i < 32; ++i) store_compressed(kChunk, milliseconds(32), 20'000);
  EXPECT_TRUE(compresses(kZeros)) << "too much would be lost";
}

TEST_F(CompressionChoiceTest, PrefersTheMeasuredCoderToTrials) {
  make();
  for (int i = 0; i < 20; ++i) store_raw(kChunk, 200);
  ASSERT_TRUE(compresses(kWeights));
  // Other programs use the cores: compressing takes ten times as long as the trial.
  for (int i = 0; i < 3; ++i) store_compressed(kChunk, milliseconds(320), 400);
  EXPECT_FALSE(compresses(kWeights));
  int trials = 0;
  while (!compresses(kWeights) && trials < 1000) ++trials;
  EXPECT_GT(trials, 10);
  EXPECT_LT(trials, 100) << "forgets it after some trials";
}

TEST_F(CompressionChoiceTest, DecidesAboutSmallChunksWithoutATrial) {
  constexpr CompressionEstimate kSmall{.is_worthwhile = true, .ratio = 0.5};
  make();
  EXPECT_FALSE(choice_->should_compress(kSmall, 1000));
  store_raw(kChunk, 100);
  EXPECT_TRUE(choice_->should_compress(kSmall, 1000));
  CompressionChoice::Work work(choice_.get());
  work.finish({.compressed_bytes = kMega,
               .compressed_size = kMega / 2,
               .is_small = true,
               .coding = milliseconds(100),
               .elapsed_coding = milliseconds(100)});
  EXPECT_FALSE(choice_->should_compress(kSmall, 1000));
}

TEST_F(CompressionChoiceTest, LearnsNothingFromAChunkThatFails) {
  make();
  {
    const CompressionChoice::Work work(choice_.get());
    now_ += milliseconds(10'000);
  }
  store_raw(kChunk, 1500);
  EXPECT_NEAR(choice_->report().store_rate, 1.5e9, 1e6);
}

TEST_F(CompressionChoiceTest, ReportsWhatItDecidedAndWhy) {
  make();
  EXPECT_EQ(choice_->report().reason, "");
  ASSERT_FALSE(compresses(kWeights));
  {
    CompressionChoice::Work work(choice_.get());
    work.finish({.raw_bytes = kChunk});
  }
  EXPECT_EQ(choice_->report().reason,
            "the store is expected to take 1.5 GB/s, 2 threads compress 500 MB/s");
  for (int i = 0; i < 40; ++i) store_raw(kChunk, 100);
  store_compressed(kChunk, milliseconds(32), 100);
  const CompressionReport report = choice_->report();
  EXPECT_EQ(report.reason, "the store takes 100 MB/s, 2 threads compress 1.0 GB/s");
  EXPECT_EQ(report.raw_bytes, 41 * kChunk);
  EXPECT_EQ(report.compressed_bytes, kChunk);
  EXPECT_EQ(report.compressed_size, kChunk * 78 / 100);
  EXPECT_NEAR(report.coder_rate, 1e9, 1e3);
  make();
  {
    CompressionChoice::Work work(choice_.get());
    now_ += milliseconds(1);
    work.finish({.incompressible_bytes = kMega});
  }
  EXPECT_EQ(choice_->report().reason, "nothing shrinks by a tenth");
}

}  // namespace
}  // namespace cairn::zarr
