// Files at addresses without a mapping: cut short they are an error, and their holes take no
// memory.
#include <cairn/io/file_image.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::put_file;
using testing::TempDir;

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i % 251 + 1);
  return bytes;
}

TEST(FileImage, HoldsWhatWasLoaded) {
  const TempDir dir;
  const Bytes content = pattern(100'000);
  put_file(dir / "f", content);
  const File file = File::open(dir / "f");
  FileImage image(file);
  ASSERT_EQ(image.bytes().size(), content.size());
  for (const auto& [at, n] :
       {std::pair{70'000, 10}, {0, 1}, {99'999, 1}, {30'000, 60'000}, {5, 0}}) {
    const ByteView part =
        image.bytes().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n));
    image.load(part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), content.begin() + at)) << at;
  }
  image.load_all();
  EXPECT_TRUE(std::ranges::equal(image.bytes(), content));
  put_file(dir / "empty", "");
  const File empty = File::open(dir / "empty");
  FileImage nothing(empty);
  nothing.load_all();
  EXPECT_TRUE(nothing.bytes().empty());
}

// A mapping would end the process here.
TEST(FileImage, AFileThatIsCutShortIsAnError) {
  const TempDir dir;
  put_file(dir / "f", pattern(100'000));
  const File file = File::open(dir / "f");
  FileImage image(file);
  std::filesystem::resize_file(dir / "f", 50'000);
  for (const auto part : {image.bytes().first(10), image.bytes().last(10)})
    EXPECT_THAT([&] { image.load(part); },
                FailsWith(Code::kUnavailable, "another program wrote to it"));
  EXPECT_EQ(image.bytes()[99'999], std::byte{0});
}

TEST(FileImage, HolesTakeNoMemory) {
  const TempDir dir;
  constexpr std::uint64_t kSize = std::uint64_t{8} << 30U;
  put_file(dir / "f", "begin");
  std::filesystem::resize_file(dir / "f", kSize);
  const File file = File::open(dir / "f");
  FileImage image(file);
  const auto taken = [] {
    struct rusage used {};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;  // KiB
  };
  const auto before = taken();
  image.load_all();
  EXPECT_EQ(as_text(image.bytes().first(5)), "begin");
  EXPECT_EQ(image.bytes()[kSize - 1], std::byte{0});
  EXPECT_LT(taken() - before, 64 << 10);
}

TEST(ReadText, StopsAtTheFirstNulOfALargeFile) {
  const TempDir dir;
  put_file(dir / "f", "{\"a\": ");
  std::filesystem::resize_file(dir / "f", std::uint64_t{1} << 30U);
  EXPECT_THAT([&] { (void)read_text_file(dir / "f", std::uint64_t{1} << 30U); },
              FailsWith(Code::kDataLoss, "byte 6 is NUL, which is not allowed in text"));
  EXPECT_THAT([&] { (void)read_text_file(dir / "f", 1000); },
              FailsWith(Code::kDataLoss, "at most 1000 are expected"));
  put_file(dir / "large", std::string(20 << 20U, ' '));
  EXPECT_EQ(read_text_file(dir / "large", std::uint64_t{1} << 30U).size(), 20U << 20U);
}

}  // namespace
}  // namespace cairn
