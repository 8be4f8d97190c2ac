// pickled_file_test.cc -- how much of a file is read for its pickles, and what it may cost.
#include <cairn/formats/pytorch/file/pickled_file.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using namespace std::string_literals;
using testing::FailsWith;

constexpr std::uint64_t kMega = std::uint64_t{1} << 20U;

// A file of any size that begins with some bytes and goes on with zeros.
class SparseFile {
 public:
  explicit SparseFile(std::string begin) : begin_(std::move(begin)) {}

  pickle::Pickle pickle(std::uint64_t size) {
    return pickle_at(0, size, [&](std::uint64_t at, MutableByteView out) {
      read_ += out.size();
      std::ranges::fill(out, std::byte{0});
      const ByteView bytes = as_bytes(begin_).subspan(std::min(at, begin_.size()));
      std::ranges::copy(bytes.first(std::min(bytes.size(), out.size())), out.begin());
    });
  }
  [[nodiscard]] std::uint64_t bytes_read() const { return read_; }

 private:
  std::string begin_;
  std::uint64_t read_ = 0;
};

TEST(PickledFile, ReadsMoreOnlyOfAPickleThatGoesOn) {
  for (const std::string& damaged : {"\x80\x02"s, "\x80\x02N\xff"s,
                                     "\x80\x02"
                                     "a"s}) {
    SparseFile file(damaged);
    EXPECT_THAT([&] { file.pickle(3000 * kMega); }, FailsWith(Code::kDataLoss, "of the pickle: "));
    EXPECT_EQ(file.bytes_read(), kMega);
  }
  SparseFile whole(
      "\x80\x03"
      "B\x00\x00\x30\x00"s);  // 3 MiB, and no STOP behind them
  EXPECT_THAT([&] { whole.pickle(3000 * kMega); }, FailsWith(Code::kDataLoss, "opcode 0"));
  EXPECT_EQ(whole.bytes_read(), 5 * kMega);
  SparseFile cut(
      "\x80\x03"
      "B\x00\x00\x30\x00"s);
  EXPECT_THAT([&] { cut.pickle(2 * kMega); }, FailsWith(Code::kDataLoss, "end of data"));
}

// A stored member of 1 GiB that is no pickle takes a MiB of memory.
TEST(PickledFile, ReadsAStoredMemberInPieces) {
  v0::ZipMember member{.name = "x/data.pkl", .stored = 1000 * kMega, .size = 1000 * kMega};
  std::uint64_t most = 0;
  const ReadAtFn read = [&](std::uint64_t, MutableByteView out) {
    most = std::max<std::uint64_t>(most, out.size());
    std::ranges::fill(out, std::byte{0});
  };
  EXPECT_THAT([&] { member_pickle(member, read); }, FailsWith(Code::kDataLoss, "opcode 0"));
  EXPECT_EQ(most, kMega);
  member.size = member.stored = 3 * kMega;
  member.crc = 1;
  EXPECT_THAT([&] { member_pickle(member, read); }, FailsWith(Code::kDataLoss, "are damaged"));
  EXPECT_EQ(most, kMega);
}

TEST(PickledFile, BoundsWhatIsDeflated) {
  v0::ZipMember member{.name = "x/data.pkl", .method = v0::ZipMember::kDeflated};
  bool was_read = false;
  const ReadAtFn read = [&](std::uint64_t, MutableByteView out) {
    was_read = true;
    std::ranges::fill(out, std::byte{0xff});
  };
  member.stored = 300'000;
  member.size = 300 * kMega;
  EXPECT_THAT([&] { member_content(member, read); },
              FailsWith(Code::kUnimplemented, "314572800 bytes that are deflated to 300000"));
  EXPECT_FALSE(was_read);
  member.size = 8 * kMega;  // 4 MiB and 16 bytes for each
  EXPECT_THAT([&] { member_content(member, read); }, FailsWith(Code::kDataLoss, ""));
  EXPECT_TRUE(was_read);
}

}  // namespace
}  // namespace cairn
