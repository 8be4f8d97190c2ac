#include <cairn/base/executor.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/direct_writer.h>
#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/support/fail_at.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::Faulted;
using testing::run_and_fail_at;
using testing::TempDir;

constexpr std::size_t kBlock = DirectWriter::kBlock;

// Memory that begins with a block.
Buffer random_buffer(std::size_t size, unsigned seed) {
  Buffer buffer(std::max<std::size_t>(size, std::size_t{4} << 20U));
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i + 8 <= buffer.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(buffer.data() + i, &word, 8);
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kBlock, 0U);
  return buffer;
}

enum class WritePlace { kDisk, kMemory };

class DirectWriting : public ::testing::TestWithParam<WritePlace> {
 protected:
  TempDir dir_ = GetParam() == WritePlace::kDisk ? TempDir() : TempDir::in_memory();
  const std::string path_ = dir_ / "file";
};

TEST_P(DirectWriting, FilesHoldWhatWasWrittenByManyThreads) {
  const std::size_t size = std::size_t{9} << 20U;
  const Buffer buffer = random_buffer(size, 1);
  const ByteView all(buffer.data(), size - 77);
  std::mt19937 random(2);
  for (int round = 0; round < 6; ++round) {
    // Cut anywhere, at blocks, or at a little behind them.
    std::vector<std::size_t> cuts = {0};
    while (cuts.back() < all.size()) {
      const std::size_t step = 1 + random() % (round < 3 ? std::size_t{1} << 20U : 3 * kBlock);
      const std::size_t to =
          cuts.back() +
          (round % 3 == 0 ? step : (step + kBlock) / kBlock * kBlock + (round % 3 == 1 ? 0 : 5));
      cuts.push_back(std::min(to, all.size()));
    }
    AtomicFile file(path_);
    {
      DirectWriter direct(file, all.size());
      Executor executor(4);
      executor.for_each(cuts.size() - 1, [&](std::size_t i) {
        direct.write_at(cuts[i], all.subspan(cuts[i], cuts[i + 1] - cuts[i]));
      });
    }
    file.commit();
    EXPECT_TRUE(testing::same_bytes(read_file(path_), all)) << round;
  }
}

TEST_P(DirectWriting, MemoryNeedNotLieAsInTheFile) {
  const Buffer buffer = random_buffer(std::size_t{4} << 20U, 3);
  for (const std::size_t shift : {1U, 8U, 64U, 512U, 4095U})
    for (const std::size_t offset : {0U, 1U, 64U, 4095U, 4096U, 10000U}) {
      const ByteView part(buffer.data() + shift, 5 * kBlock + 3);
      AtomicFile file(path_);
      DirectWriter(file, offset + part.size()).write_at(offset, part);
      file.commit();
      const Bytes there = read_file(path_);
      ASSERT_EQ(there.size(), offset + part.size());
      EXPECT_TRUE(testing::same_bytes(ByteView(there).subspan(offset), part))
          << shift << " " << offset;
    }
}

// Whatever the system refuses, or does by halves: all is there, or an error says that it is not.
TEST_P(DirectWriting, EveryFaultIsSaidOrMended) {
  const Buffer buffer = random_buffer(std::size_t{4} << 20U, 4);
  const std::size_t shift = 100;
  const ByteView all(buffer.data() + shift, (std::size_t{3} << 20U) + 1234);
  const auto write = [&] {
    AtomicFile file(path_);
    DirectWriter(file, shift + all.size()).write_at(shift, all);
    file.commit();
  };
  for (const int error : {ENOSPC, EIO, EINVAL, testing::kShortWrite})
    for (int n = 1;; ++n) {
      const Faulted faulted = run_and_fail_at(n, error, write);
      if (!faulted.injected) break;
      SCOPED_TRACE(faulted.call + " " + std::to_string(error));
      EXPECT_TRUE(faulted.ended);
      EXPECT_EQ(faulted.descriptors_left, 0);
      if (!faulted.error) {
        const Bytes there = read_file(path_);
        EXPECT_TRUE(testing::same_bytes(ByteView(there).subspan(shift), all));
      }
      ASSERT_LT(n, 50);
    }
}

INSTANTIATE_TEST_SUITE_P(Places, DirectWriting,
                         ::testing::Values(WritePlace::kDisk, WritePlace::kMemory),
                         [](const auto& place) {
                           return place.param == WritePlace::kDisk ? "disk" : "memory";
                         });

}  // namespace
}  // namespace cairn
