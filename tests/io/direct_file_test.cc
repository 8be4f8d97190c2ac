#include <cairn/io/atomic_file.h>
#include <cairn/io/direct_file.h>
#include <cairn/io/file.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/random_bytes.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::TempDir;

constexpr std::size_t kBuffer = DirectAppender::kBuffer;

Bytes random_bytes(std::size_t size, unsigned seed) {
  Bytes out(size);
  testing::fill_random(out, seed);
  return out;
}

// Where O_DIRECT is to be had, and where it perhaps is not.
enum class Place { kDisk, kMemory };

class Direct : public ::testing::TestWithParam<Place> {
 protected:
  TempDir dir_ = GetParam() == Place::kDisk ? TempDir() : TempDir::in_memory();
  const std::string path_ = dir_ / "file";

  // Cuts `all` at every size of `cuts` in turn, after `before` bytes that an AtomicFile has written
  // itself.
  void write(ByteView all, const std::vector<std::size_t>& cuts, std::size_t before) {
    AtomicFile file(path_);
    file.append(all.first(before));
    DirectAppender direct(file.descriptor(), file.temporary_path(), before);
    ByteView rest = all.subspan(before);
    for (std::size_t i = 0; !rest.empty(); ++i) {
      // Two parts at a time, one of them perhaps empty.
      const std::size_t n = std::min(rest.size(), cuts[i % cuts.size()]);
      const ByteView parts[] = {rest.first(n / 3), rest.subspan(n / 3, n - n / 3)};
      direct.append(parts);
      rest = rest.subspan(n);
      EXPECT_EQ(direct.size(), all.size() - rest.size());
    }
    direct.finish();
    file.commit();
  }
};

TEST_P(Direct, FilesHoldWhatWasAppended) {
  const Bytes all = random_bytes(5 * kBuffer + 4321, 1);
  const std::vector<std::vector<std::size_t>> ways = {
      {all.size()}, {kBuffer}, {kBuffer - 1}, {1 << 17, 3}, {4096}, {3 * kBuffer, 5, 70000}};
  for (const auto& cuts : ways)
    for (const std::size_t before :
         {std::size_t{0}, std::size_t{1}, std::size_t{4096}, kBuffer - 1, kBuffer}) {
      write(all, cuts, before);
      EXPECT_TRUE(testing::same_bytes(read_file(path_), all)) << cuts[0] << " " << before;
    }
}

TEST_P(Direct, SizesAroundABuffer) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBuffer - 1, kBuffer, kBuffer + 1,
                                 2 * kBuffer, 2 * kBuffer + 512}) {
    const Bytes all = random_bytes(size, 2);
    write(all, {size + 1}, 0);
    EXPECT_TRUE(testing::same_bytes(read_file(path_), all)) << size;
  }
}

// Aligned memory is written from where it is, other memory is not: the file must not show which.
TEST_P(Direct, AlignedAndUnalignedMemory) {
  Buffer memory(6 * kBuffer + 4096);
  const Bytes random = random_bytes(memory.size(), 3);
  std::memcpy(memory.data(), random.data(), random.size());
  for (const std::size_t shift :
       {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{512}}) {
    const ByteView all(memory.data() + shift, 6 * kBuffer + 1000);
    write(all, {all.size()}, 0);
    EXPECT_TRUE(testing::same_bytes(read_file(path_), all)) << shift;
    write(all, {kBuffer, 2 * kBuffer}, 0);
    EXPECT_TRUE(testing::same_bytes(read_file(path_), all)) << shift;
  }
}

TEST_P(Direct, NothingIsLeftOfOneThatIsGivenUp) {
  const Bytes all = random_bytes(3 * kBuffer + 10, 4);
  {
    AtomicFile file(path_);
    DirectAppender direct(file.descriptor(), file.temporary_path(), 0);
    const ByteView view(all);
    direct.append({&view, 1});
  }
  EXPECT_FALSE(file_exists(path_));
}

// The system refuses in the thread that writes; who appends, or finishes, hears of it.
TEST_P(Direct, AFailedWriteIsReported) {
  const Bytes all = random_bytes(6 * kBuffer, 5);
  testing::put_file(path_, "");
  const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    DirectAppender direct(fd, path_, 0);
    const ByteView first = ByteView(all).first(kBuffer);
    direct.append({&first, 1});  // this much was written
    const int none = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::dup2(none, fd), fd);
    ::close(none);
    const auto rest = [&] {
      const ByteView view = ByteView(all).subspan(kBuffer);
      direct.append({&view, 1});
      direct.finish();
    };
    EXPECT_THAT(rest, FailsWith(Code::kIo, path_ + ": cannot write at byte 2097152"));
  }
  ::close(fd);
}

INSTANTIATE_TEST_SUITE_P(Places, Direct, ::testing::Values(Place::kDisk, Place::kMemory),
                         [](const auto& place) {
                           return place.param == Place::kDisk ? "disk" : "memory";
                         });

TEST(WhyNotDirect, SaysWhy) {
  const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_THAT(why_not_direct(fd), ::testing::HasSubstr("O_DIRECT"));
  ::close(fd);
}

}  // namespace
}  // namespace cairn
