// save_lock_test.cc -- the lock of one save, beside others that ask for it.
#include <cairn/io/save_lock.h>

#include <gtest/gtest.h>
#include <tests/support/matchers.h>
#include <tests/support/temp_dir.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace cairn {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::TempDir;

TEST(SaveLock, IsHeldByOneSave) {
  const TempDir dir;
  const std::string target = dir / "checkpoint";
  {
    const SaveLock lock(target);
    EXPECT_TRUE(SaveLock::is_held(target));
    EXPECT_THAT([&] { const SaveLock second(target); },
                FailsWith(Code::kUnavailable, "another save to this path is in progress"));
  }
  EXPECT_FALSE(SaveLock::is_held(target));
}

// is_held() takes the lock for a moment.
TEST(SaveLock, OfALeftoverIsTakenBesideOthersThatAskForIt) {
  const TempDir dir;
  const std::string target = dir / "checkpoint";
  std::atomic<bool> ends = false;
  std::thread asks([&] {
    while (!ends) {
      SaveLock::is_held(target);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  for (int i = 0; i < 400; ++i) {
    std::ofstream(SaveLock::file_for(target)) << "left by a crash";
    EXPECT_NO_THROW(const SaveLock lock(target)) << i;
  }
  ends = true;
  asks.join();
}

}  // namespace
}  // namespace cairn
