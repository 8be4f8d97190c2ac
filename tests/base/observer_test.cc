// observer_test.cc -- events as text, and observers that throw.
#include <cairn/base/observer/observe.h>
#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cairn {
namespace {

TEST(Observer, NobodyIsToldByDefault) {
  observe({}, EventLevel::kWarning, "some.event", {{"number", std::int64_t{1}}});
}

TEST(Observer, AnEventIsALineForPeopleAndALineForPrograms) {
  std::vector<std::string> lines;
  const Observer observer = [&](const Event& event) {
    lines.push_back(event_text(event));
    lines.push_back(event_json(event));
  };
  observe(observer, EventLevel::kInfo, "save.finished",
          {{"path", "/a \"b\"\n"}, {"bytes", std::int64_t{4096}}, {"share", 0.5}},
          std::chrono::milliseconds(1500));
  observe(observer, EventLevel::kWarning, "save.small_chunks", {});
  EXPECT_THAT(lines, ::testing::ElementsAre(
                         R"(info save.finished seconds=1.500000 path="/a \"b\"\n" bytes=4096 )"
                         R"(share=0.5)",
                         R"({"level":"info","event":"save.finished","seconds":1.5,)"
                         R"("path":"/a \"b\"\n","bytes":4096,"share":0.5})",
                         "warning save.small_chunks",
                         R"({"level":"warning","event":"save.small_chunks"})"));
}

TEST(Observer, LevelsHaveNames) {
  EXPECT_EQ(event_level_name(EventLevel::kDebug), "debug");
  EXPECT_EQ(event_level_name(EventLevel::kInfo), "info");
  EXPECT_EQ(event_level_name(EventLevel::kWarning), "warning");
  EXPECT_EQ(event_level_name(EventLevel::kError), "error");
}

TEST(Observer, WhatAnObserverThrowsIsDropped) {
  const Observer observer = [](const Event&) { throw std::runtime_error("no disk"); };
  observe(observer, EventLevel::kInfo, "save.finished", {});
  EXPECT_EQ(reporting_failure(observer, "save.failed", "/a", [] { return 7; }), 7);
}

TEST(Observer, AFailureIsReportedAndPassedOn) {
  std::string text;
  const Observer observer = [&](const Event& event) { text = event_text(event); };
  EXPECT_THROW(
      reporting_failure(observer, "save.failed", "/a", [] { throw Error(Code::kIo, "disk full"); }),
      Error);
  EXPECT_EQ(text, R"(error save.failed path="/a" code="io" message="disk full")");
}

}  // namespace
}  // namespace cairn
