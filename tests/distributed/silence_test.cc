// Processes of other hosts that say nothing any more, or go on saying something: signs of life, and
// what is made of them.
#include <cairn/distributed.h>
#include <cairn/distributed/coordinator/heartbeat.h>
#include <cairn/distributed/coordinator/job_folder.h>
#include <cairn/distributed/coordinator/message.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using distributed::Heartbeat;
using distributed::kBeatsOfSilence;
using distributed::SignsOfLife;
using testing::FailsWith;
using testing::put_file;
using testing::TempDir;

constexpr auto kMinute = std::chrono::seconds(60);

void touch(const std::string& path) { ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), nullptr, 0), 0); }

std::int64_t changed(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0);
  return found.st_mtim.tv_sec * 1000000000 + found.st_mtim.tv_nsec;
}

void set_change(const std::string& path, std::int64_t second) {
  const std::array<timespec, 2> times = {timespec{second, 0}, timespec{second, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
}

TEST(SignsOfLife, SilenceIsCountedInOwnBeats) {
  const TempDir dir = TempDir::in_memory();
  const std::string file = dir / "here";
  put_file(file, "x");
  SignsOfLife signs;
  std::uint64_t own = 100;  // the first look is where the count begins
  const auto silent_for = [&](int beats) {
    bool silent = signs.is_silent(1, file, own);
    for (int i = 0; i < beats; ++i) silent = signs.is_silent(1, file, ++own);
    return silent;
  };
  for (const std::int64_t second : {5, 4, 9}) {  // whichever way the other's clock goes
    set_change(file, second);
    EXPECT_FALSE(silent_for(kBeatsOfSilence - 1));
  }
  EXPECT_FALSE(silent_for(1));  // the change was seen with the first of those beats
  for (int looks = 0; looks < 100; ++looks)
    EXPECT_FALSE(signs.is_silent(1, file, own)) << "looking is not beating";
  EXPECT_TRUE(silent_for(1));
  set_change(file, 10);
  EXPECT_FALSE(silent_for(1)) << "it was only slow";
  EXPECT_FALSE(signs.is_silent(2, file, own)) << "another, who is looked at for the first time";
}

TEST(SignsOfLife, AProcessThatHasNotArrivedIsNotSilent) {
  const TempDir dir = TempDir::in_memory();
  SignsOfLife signs;
  for (std::uint64_t own = 0; own < 100; ++own) EXPECT_FALSE(signs.is_silent(1, dir / "here", own));
}

TEST(Heartbeat, TouchesItsFileAndCountsOnlyThat) {
  const TempDir dir = TempDir::in_memory();
  const std::string file = dir / "here";
  put_file(file, "x");
  std::set<std::int64_t> seen = {changed(file)};
  Heartbeat heart(file, std::chrono::milliseconds(5));
  while (seen.size() < 5) {
    seen.insert(changed(file));
    std::this_thread::yield();
  }
  EXPECT_GE(heart.count(), 4U);
  std::filesystem::remove(file);
  const Heartbeat nothing(file, std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(nothing.count(), 0U);
  EXPECT_FALSE(std::filesystem::exists(file));
}

// Process 0 of a run of two; process 1 is what the test makes it, on a host of which nothing can be
// seen here.
class FarProcess : public ::testing::Test {
 protected:
  std::unique_ptr<Coordinator> first(Coordinator::Timeout silence) {
    distributed::ProcessRecord record = distributed::record_of_this_process(
        {.process_index = 1, .process_count = 2, .silence_timeout = silence});
    record.pid_space = "another";
    put_file(run_ + "/here-1", distributed::record_text(record));
    return files_coordinator({.directory = folder_.path(),
                              .process_index = 0,
                              .process_count = 2,
                              .run_id = "r",
                              .silence_timeout = silence});
  }
  // Lets process 1 come to the collective "b", where process 0 is.
  void come() const {
    const auto names = names_in(run_);
    std::string place = *std::find_if(names.begin(), names.end(),
                                      [](const auto& name) { return name.starts_with("m-b-"); });
    place.replace(place.size() - 5, 1, "1");  // of <process>-<number>-<low>
    put_file(run_ + "/new", std::string(as_text(distributed::encode_message({1, 2, 0, "b", {}}))));
    std::filesystem::rename(run_ + "/new", run_ + "/" + place);
  }

  TempDir folder_ = TempDir::in_memory();
  std::string run_ = folder_ / ".cairn-job/run-r";
};

TEST_F(FarProcess, IsNamedWhenItHasFallenSilent) {
  const auto mine = first(std::chrono::milliseconds(240));
  EXPECT_THAT(
      [&] { mine->barrier("b", kMinute); },
      FailsWith(Code::kUnavailable, "'b': process 1 was silent for 0.24 s, as seen by process 0"));
}

TEST_F(FarProcess, IsWaitedForAsLongAsItGivesSigns) {
  const auto mine = first(std::chrono::milliseconds(600));
  std::thread other([&] {
    std::set<std::int64_t> beats;  // of process 0
    while (beats.size() < 3 * kBeatsOfSilence) {
      touch(run_ + "/here-1");
      beats.insert(changed(run_ + "/here-0"));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    come();
  });
  EXPECT_NO_THROW(mine->barrier("b", kMinute));
  other.join();
}

TEST_F(FarProcess, IsWaitedForToTheEndIfThatIsWanted) {
  const auto mine = first(Coordinator::Timeout(0));
  const std::int64_t before = changed(run_ + "/here-0");
  EXPECT_THAT([&] { mine->barrier("b", std::chrono::milliseconds(300)); },
              FailsWith(Code::kUnavailable,
                        "'b': process 1 did not arrive before process 0 timed out after 0.3 s"));
  EXPECT_EQ(changed(run_ + "/here-0"), before);
}

}  // namespace
}  // namespace cairn
