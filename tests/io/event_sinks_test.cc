// event_sinks_test.cc -- printers and JSON lines: whole lines from many threads, torn lines, and
// disks that are full.
#include <cairn/base/json/json.h>
#include <cairn/base/observer/observe.h>
#include <cairn/event_sinks.h>
#include <gmock/gmock.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void send(const Observer& observer, EventLevel level, std::string_view name,
          std::int64_t number = 1) {
  observe(observer, level, name, {{"number", number}});
}

// Calls the observer from 8 threads, 250 times each.
void send_from_threads(const Observer& observer) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&observer, t] {
      for (int i = 0; i < 250; ++i) send(observer, EventLevel::kError, "some.event", t * 250 + i);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(EventPrinter, PrintsTheEventsFromALevelOn) {
  const TempDir dir;
  std::FILE* file = std::fopen((dir / "log").c_str(), "w");
  const Observer printer = event_printer(EventLevel::kWarning, file);
  for (const EventLevel level :
       {EventLevel::kDebug, EventLevel::kInfo, EventLevel::kWarning, EventLevel::kError})
    send(printer, level, "some.event");
  // without waiting for the stream to be closed
  EXPECT_THAT(lines_of(dir / "log"),
              ElementsAre("warning some.event number=1", "error some.event number=1"));
  std::fclose(file);
}

TEST(EventPrinter, PrintsWarningsToTheStandardErrorByDefault) {
  ::testing::internal::CaptureStderr();
  send(event_printer(), EventLevel::kInfo, "left.out");
  send(event_printer(), EventLevel::kWarning, "some.event");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning some.event number=1\n");
}

TEST(EventPrinter, LinesOfThreadsDoNotMix) {
  const TempDir dir;
  std::FILE* file = std::fopen((dir / "log").c_str(), "w");
  send_from_threads(event_printer(EventLevel::kInfo, file));
  std::fclose(file);
  const std::vector<std::string> lines = lines_of(dir / "log");
  EXPECT_EQ(lines.size(), 2000U);
  EXPECT_THAT(lines, ::testing::Each(::testing::StartsWith("error some.event number=")));
}

TEST(JsonLines, AppendsWholeLinesFromThreadsAndSinks) {
  const TempDir dir;
  send(json_lines_sink(dir / "log"), EventLevel::kInfo, "first.event");
  const Observer one = json_lines_sink(dir / "log"), other = json_lines_sink(dir / "log");
  std::thread thread([&] { send_from_threads(one); });
  send_from_threads(other);
  thread.join();
  const std::vector<std::string> lines = lines_of(dir / "log");
  ASSERT_EQ(lines.size(), 4001U);
  EXPECT_EQ(lines[0], R"({"level":"info","event":"first.event","number":1})");
  std::vector<int> count(2000);
  for (std::size_t i = 1; i < lines.size(); ++i)
    ++count.at(static_cast<std::size_t>(*parse_json(lines[i]).find("number")->as_int64()));
  EXPECT_THAT(count, ::testing::Each(2));
}

TEST(JsonLines, LeavesOutLowerLevels) {
  const TempDir dir;
  const Observer sink = json_lines_sink(dir / "log", {.least = EventLevel::kWarning});
  send(sink, EventLevel::kInfo, "left.out");
  EXPECT_THAT(lines_of(dir / "log"), IsEmpty());
}

TEST(JsonLines, ATornLineStaysAlone) {
  const TempDir dir;
  std::ofstream(dir / "log") << "{\"level\":\"in";
  send(json_lines_sink(dir / "log"), EventLevel::kInfo, "some.event");
  EXPECT_THAT(
      lines_of(dir / "log"),
      ElementsAre("{\"level\":\"in", R"({"level":"info","event":"some.event","number":1})"));
}

TEST(JsonLines, RefusesAFileThatCannotBeOpened) {
  const TempDir dir;
  EXPECT_THAT([&] { (void)json_lines_sink(dir / "missing/log"); },
              FailsWith(Code::kNotFound, "missing/log: cannot open it"));
  EXPECT_THAT([&] { (void)json_lines_sink(dir.path()); }, FailsWith(Code::kIo, "cannot open it"));
}

// Limits the size of files, as a full disk does, and then lifts the limit.
TEST(JsonLines, EventsThatCannotBeWrittenGoElsewhere) {
  const TempDir dir;
  std::vector<std::string> left;
  const Observer sink = json_lines_sink(
      dir / "log", {.otherwise = [&](const Event& event) { left.push_back(event_text(event)); }});
  send(sink, EventLevel::kInfo, "first.event");
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limited = before;
  limited.rlim_cur = 60;  // the first line, and a part of the second
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  send(sink, EventLevel::kInfo, "torn.event");
  send(sink, EventLevel::kInfo, "lost.event");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, old_handler);
  send(sink, EventLevel::kInfo, "last.event");
  EXPECT_THAT(
      left, ElementsAre(HasSubstr("error observer.not_written path=\""), "info torn.event number=1",
                        HasSubstr("File too large"), "info lost.event number=1"));
  const std::vector<std::string> lines = lines_of(dir / "log");
  EXPECT_THAT(lines, ElementsAre(HasSubstr("first.event"), ::testing::StartsWith("{\"level"),
                                 R"({"level":"info","event":"last.event","number":1})"));
}

TEST(JsonLines, EventsThatCannotBeWrittenArePrintedByDefault) {
  ::testing::internal::CaptureStderr();
  send(json_lines_sink("/dev/full"), EventLevel::kInfo, "some.event");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(
                  ::testing::StartsWith("error observer.not_written path=\"/dev/full\""),
                  HasSubstr("No space left"), ::testing::EndsWith("\ninfo some.event number=1\n")));
}

}  // namespace
}  // namespace cairn
