#include <cairn/base/cancellation.h>
#include <cairn/kvstore/object/credentials/credentials.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;

TEST(Surroundings, AreThoseOfTheProcess) {
  const Surroundings here = process_surroundings(nullptr);
  EXPECT_EQ(here.environment("CAIRN_NO_SUCH_VARIABLE"), std::nullopt);
  ::setenv("CAIRN_TEST_VARIABLE", "x y", 1);
  EXPECT_EQ(here.environment("CAIRN_TEST_VARIABLE"), "x y");
  const cairn::testing::TempDir folder;
  EXPECT_EQ(here.file(folder.path() + "/none"), std::nullopt);
  std::ofstream(folder.path() + "/a") << "text\n";
  EXPECT_EQ(here.file(folder.path() + "/a"), "text\n");
  std::ofstream(folder.path() + "/large") << std::string(2'000'000, 'x');
  EXPECT_THROW((void)here.file(folder.path() + "/large"), Error);
  EXPECT_NEAR(static_cast<double>(here.now_s()), static_cast<double>(std::time(nullptr)), 10);
}

TEST(Surroundings, RunPrograms) {
  const Surroundings here = process_surroundings(nullptr);
  EXPECT_EQ(here.run({"printf", "%s-%s", "a b", "c"}), "a b-c");
  EXPECT_EQ(here.run({"cat"}), "");  // standard input is empty
  EXPECT_THAT([&] { (void)here.run({"false"}); },
              FailsWith(Code::kIo, "the program false ended with an error"));
  EXPECT_THAT([&] { (void)here.run({"yes"}); },
              FailsWith(Code::kIo, "the program yes writes more than 64 KiB"));
}

TEST(Surroundings, NameAProgramThatIsMissing) {
  const Surroundings here = process_surroundings(nullptr);
  EXPECT_THAT(
      [&] {
        (void)here.run({"cairn-no-such-program", "SECRET"});
      },
      FailsWith(Code::kIo, "the program cairn-no-such-program cannot be started"));
}

TEST(Surroundings, StopAProgramWhoseCallerStops) {
  const Surroundings here = process_surroundings(nullptr);
  std::stop_source stop;
  stop.request_stop();
  const CancellationScope scope{Cancellation(stop.get_token())};
  EXPECT_THAT([&] { (void)here.run({"sleep", "1000"}); }, FailsWith(Code::kCancelled, ""));
}

}  // namespace
}  // namespace cairn::object
