// read_ahead_test.cc -- small reads of a file in a store are answered from blocks.
#include <cairn/io/tree/read_ahead.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/matchers.h"
#include "tests/support/random_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::fill_random;
using testing::put_file;
using testing::TempDir;

// Counts the reads, and fails those that it is told to.
class CountedSource : public RangeSource {
 public:
  explicit CountedSource(Bytes bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read_into(std::uint64_t offset, MutableByteView out) const override {
    ++reads;
    if (is_replaced) throw Error(Code::kUnavailable, "was replaced");
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      throw Error(Code::kOutOfRange, "ends before that");
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const override {
    for (const MutableByteView part : out) {
      if (part.data() != nullptr) read_into(offset, part);
      offset += part.size();
    }
  }
  std::int64_t modified_ns() const override { return 7; }
  const std::string& version() const override { return version_; }

  mutable std::atomic<int> reads = 0;
  std::atomic<bool> is_replaced = false;

 private:
  Bytes bytes_;
  std::string version_ = "1";
};

struct Opened {
  explicit Opened(std::size_t size) : bytes(size) {
    fill_random(bytes, 1);
    source = std::make_shared<CountedSource>(bytes);
    file.emplace(with_read_ahead(File("s3://b/x", source)));
  }
  void expect(std::uint64_t offset, std::size_t length) const {
    Bytes out(length);
    file->read_into(offset, out);
    EXPECT_TRUE(std::ranges::equal(out, ByteView(bytes).subspan(offset, length)))
        << offset << " " << length;
  }

  Bytes bytes;
  std::shared_ptr<CountedSource> source;
  std::optional<File> file;
};

TEST(ReadAhead, SmallReadsShareRequests) {
  const Opened opened(1'000'000);
  for (std::uint64_t at = 0; at + 999 <= 1'000'000; at += 999) opened.expect(at, 999);
  EXPECT_EQ(opened.source->reads, 4);
  opened.expect(999'999, 1);
  opened.expect(1'000'000, 0);
  opened.expect(262'140, 8);  // in two blocks
  EXPECT_EQ(opened.source->reads, 4);
  opened.expect(10, 600'000);
  EXPECT_EQ(opened.source->reads, 5);
  EXPECT_EQ(opened.file->modified_ns(), 7);
  EXPECT_FALSE(opened.file->is_local());
}

TEST(ReadAhead, ScattersAndSkips) {
  const Opened opened(500'000);
  Bytes out(30);
  const MutableByteView all(out);
  const std::array<MutableByteView, 3> parts = {
      all.first(10), MutableByteView(static_cast<std::byte*>(nullptr), 1000), all.subspan(10)};
  opened.file->read_scatter(300'000, parts);
  EXPECT_TRUE(std::ranges::equal(all.first(10), ByteView(opened.bytes).subspan(300'000, 10)));
  EXPECT_TRUE(std::ranges::equal(all.subspan(10), ByteView(opened.bytes).subspan(301'010, 20)));
  EXPECT_EQ(opened.source->reads, 1);
}

TEST(ReadAhead, KeepsFewBlocksAndNoErrors) {
  const Opened opened(20 << 18U);
  for (std::uint64_t block = 0; block < 20; ++block) opened.expect(block << 18U, 5);
  for (std::uint64_t block = 0; block < 20; ++block) opened.expect(block << 18U, 5);
  EXPECT_EQ(opened.source->reads, 40);
  Bytes out(100);
  EXPECT_THAT([&] { opened.file->read_into((20 << 18U) - 99, out); },
              FailsWith(Code::kOutOfRange, "ends"));
  opened.source->is_replaced = true;
  EXPECT_THAT([&] { opened.file->read_into(0, out); }, FailsWith(Code::kUnavailable, "replaced"));
  opened.source->is_replaced = false;
  opened.expect(0, 100);
}

TEST(ReadAhead, LocalFilesStayAsTheyAre) {
  const TempDir dir;
  put_file(dir / "a", "text");
  EXPECT_TRUE(with_read_ahead(File::open(dir / "a")).is_local());
}

}  // namespace
}  // namespace cairn
