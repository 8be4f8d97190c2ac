// directory_test.cc -- folders that others change at the same time.
#include <cairn/io/directory.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::put_file;
using testing::TempDir;

TEST(RemoveTree, ByTwoAtOnce) {
  const TempDir dir = TempDir::in_memory();
  for (int round = 0; round < 500; ++round) {
    for (int i = 0; i < 6; ++i) {
      put_file(dir / ("tree/" + std::to_string(i)), "");
      put_file(dir / ("tree/below/" + std::to_string(i)), "");
    }
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        ++ready;
        while (ready < 2) std::this_thread::yield();
        EXPECT_NO_THROW(remove_tree(dir / "tree"));
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_FALSE(std::filesystem::exists(dir / "tree"));
  }
}

TEST(RemoveTree, OfNothing) {
  const TempDir dir;
  EXPECT_NO_THROW(remove_tree(dir / "missing"));
}

}  // namespace
}  // namespace cairn
