// read_forward_test.cc -- a long range that is read from front to back while threads fetch ahead.
#include <cairn/error.h>
#include <cairn/io/tree/read_forward.h>
#include <cairn/storage/kvstore.h>
#include <gmock/gmock.h>
#include <tests/support/matchers.h>
#include <tests/support/slow_store.h>

#include <algorithm>
#include <chrono>

namespace cairn {
namespace {

using testing::FailsWith;
using testing::RequestLog;
using testing::SlowSource;

constexpr std::uint64_t kOffset = 1000;
constexpr std::uint64_t kLength = 10 * kForwardPiece + 12345;

class ReadForward : public ::testing::Test {
 protected:
  ReadForward() : bytes_(kOffset + kLength + 500) {
    for (std::size_t i = 0; i < bytes_.size(); i += 1000) bytes_[i] = static_cast<std::byte>(i / 7);
    store_->write("x", bytes_);
    file_ = std::make_shared<const File>("s3://b/x",
                                         std::make_shared<SlowSource>(store_->open("x", ""), log_));
  }
  [[nodiscard]] File open(std::uint64_t sure, std::size_t window) const {
    return read_forward(file_,
                        {.offset = kOffset, .length = kLength, .sure = sure, .window = window});
  }
  void check(const File& file, std::uint64_t at, std::size_t size) const {
    Bytes out(size);
    file.read_into(at, out);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), bytes_.begin() + static_cast<long>(at))) << at;
  }

  StorePtr store_ = make_memory_store();
  Bytes bytes_;
  std::shared_ptr<RequestLog> log_ = std::make_shared<RequestLog>(std::chrono::milliseconds(20));
  std::shared_ptr<const File> file_;
};

TEST_F(ReadForward, FetchesPiecesAtOnceAndEachOnce) {
  const File file = open(kLength, 4);
  for (std::uint64_t at = kOffset; at < kOffset + kLength; at += 700'001)
    check(file, at, std::min<std::uint64_t>(700'001, kOffset + kLength - at));
  EXPECT_EQ(log_->requests(), 11U);
  EXPECT_EQ(log_->bytes(), kLength);
  EXPECT_GE(log_->most_at_once(), 3U);
  EXPECT_LE(log_->most_bytes_at_once(), 4 * kForwardPiece);
}

TEST_F(ReadForward, FetchesNoFurtherThanIsSureAndThenMoreAndMore) {
  const File file = open(1, 8);
  check(file, kOffset, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(log_->requests(), 1U);
  for (std::uint64_t piece = 1; piece < 4; ++piece)
    check(file, kOffset + piece * kForwardPiece, 100);
  EXPECT_LE(log_->requests(), 8U);
}

TEST_F(ReadForward, OtherReadsAreRequestsOfTheirOwn) {
  const File file = open(kLength, 2);
  check(file, 0, 100);  // before the range
  check(file, kOffset + kForwardPiece + 5, 100);
  check(file, kOffset + 7, 10);                    // back
  check(file, kOffset + 9 * kForwardPiece, 1000);  // over pieces that are being fetched
  check(file, kOffset + kLength - 10, 100);        // over the end
  check(file, kOffset + 10 * kForwardPiece, 12345);
}

TEST_F(ReadForward, ThrowsWhatARequestThrew) {
  log_->fail_after(2);
  const File file = open(kLength, 4);
  EXPECT_THAT(
      [&] {
        for (std::uint64_t at = kOffset; at < kOffset + kLength; at += kForwardPiece)
          check(file, at, 100);
      },
      FailsWith(Code::kIo, "the store does not answer"));
}

TEST_F(ReadForward, EndsWithoutBeingRead) {
  const File unread = open(kLength, 4);
  const File file = open(kLength, 4);
  check(file, kOffset, 1);  // others are on their way
}

}  // namespace
}  // namespace cairn
