// custom_names_test.cc -- steps whose names the caller's own functions make and parse.
#include <cairn/checkpoint_manager.h>
#include <cairn/io/file.h>
#include <gtest/gtest.h>

#include <charconv>
#include <filesystem>
#include <fstream>

#include "tests/orbax/manager/small_steps.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::save_step;
using cairn::testing::TempDir;
using cairn::testing::tree_of;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// epoch=12
StepNameFormat epochs() {
  StepNameFormat format;
  format.name = [](std::int64_t step) { return "epoch=" + std::to_string(step); };
  format.parse = [](std::string_view name) -> std::optional<std::int64_t> {
    if (!name.starts_with("epoch=")) return std::nullopt;
    std::int64_t step = 0;
    const auto parsed = std::from_chars(name.data() + 6, name.data() + name.size(), step);
    return parsed.ec == std::errc() ? std::optional(step) : std::nullopt;
  };
  return format;
}

TEST(StepNames, FoldersOfADirectoryCountByNameAndMarker) {
  const TempDir dir = TempDir::in_memory();
  EXPECT_THAT([&] { (void)list_step_folders(dir / "run"); }, FailsWith(Code::kNotFound, "run"));
  for (const char* name : {"10", "9", "007", "step_3", "epoch=4", "11.orbax-checkpoint-tmp", "x"})
    make_directories((dir / "run/") + name);
  std::ofstream(dir / "run/8") << "a file";
  std::filesystem::create_directory_symlink("9", dir / "run/12");
  const auto names = [&](const StepNameFormat& format, CommitProtocol protocol, bool legacy) {
    std::vector<std::string> found;
    for (const StepFolder& one : list_step_folders(dir / "run", format, protocol, legacy))
      found.push_back(std::to_string(one.step) + ":" + one.name);
    return found;
  };
  constexpr CommitProtocol kRename = CommitProtocol::kAtomicRename;
  constexpr CommitProtocol kMarker = CommitProtocol::kCommitMarker;
  EXPECT_THAT(names({}, kRename, false), ElementsAre("9:9", "10:10", "12:12"));
  EXPECT_THAT(names(StepNameFormat("", 3), kRename, false), ElementsAre("7:007"));
  EXPECT_THAT(names(StepNameFormat("step"), kRename, false), ElementsAre("3:step_3"));
  EXPECT_THAT(names(epochs(), kRename, false), ElementsAre("4:epoch=4"));
  EXPECT_THAT(names({}, kMarker, false), ElementsAre());
  std::ofstream(dir / "run/10/commit_success.txt") << "x";
  std::ofstream(dir / "run/9/_METADATA") << "{}";
  EXPECT_THAT(names({}, kMarker, false), ElementsAre("10:10"));
  EXPECT_THAT(names({}, kMarker, true), ElementsAre("9:9", "10:10", "12:12"));
}

// covers: manager.CheckpointManagerOptions.step_name_format
// note: A `StepNameFormat` has two functions for names of your own: `name` and `parse`.
TEST(CustomStepNames, AManagerAndAWatcherUseThem) {
  const TempDir dir = TempDir::in_memory();
  {
    CheckpointManager manager(dir / "run", {.max_to_keep = 2, .step_name_format = epochs()});
    for (const std::int64_t step : {9, 10, 11}) save_step(manager, step);
    manager.close();
  }
  std::filesystem::create_directory(dir / "run/epoch=x");
  std::filesystem::create_directory(dir / "run/epoch=12 copy");  // parsed, but not the name of 12
  std::filesystem::create_directory(dir / "run/7");
  EXPECT_THAT(list_directory(dir / "run").folders,
              UnorderedElementsAre("epoch=10", "epoch=11", "epoch=x", "epoch=12 copy", "7"));
  CheckpointManager manager(dir / "run", {.step_name_format = epochs()});
  EXPECT_THAT(manager.all_steps(), ElementsAre(10, 11));
  EXPECT_EQ(manager.restore(10), tree_of(10));
  EXPECT_EQ(StepWatcher(dir / "run", {.step_name_format = epochs()}).next(), 11);
  manager.remove(10);
  EXPECT_FALSE(file_exists(dir / "run/epoch=10"));
}

TEST(CustomStepNames, LeftoversAreRemoved) {
  const TempDir dir = TempDir::in_memory();
  const std::string left = dir / "run/epoch=3.orbax-checkpoint-tmp";
  std::filesystem::create_directories(left + "/default");
  std::filesystem::create_directories(dir / "run/other=3.orbax-checkpoint-tmp/default");
  CheckpointManager manager(dir / "run",
                            {.step_name_format = epochs(), .cleanup_tmp_directories = true});
  EXPECT_THAT(list_directory(dir / "run").folders, ElementsAre("other=3.orbax-checkpoint-tmp"));
}

TEST(CustomStepNames, NamesThatCannotBeReadBackAreRefused) {
  const auto name_is = [](std::string name) {
    StepNameFormat format = epochs();
    format.name = [name = std::move(name)](std::int64_t) { return name; };
    return [format] { (void)step_name(12, format); };
  };
  for (const char* name : {"", ".", "..", "a/epoch=12", "epoch=12.orbax-checkpoint-tmp"})
    EXPECT_THAT(name_is(name), FailsWith(Code::kInvalidArgument, "cannot be the name of the"));
  EXPECT_THAT(name_is("epoch=13"), FailsWith(Code::kInvalidArgument, "`parse` makes step 13"));
  EXPECT_THAT(name_is("12"), FailsWith(Code::kInvalidArgument, "`parse` makes no step"));
  StepNameFormat half = epochs();
  half.parse = nullptr;
  const TempDir dir;
  EXPECT_THAT([&] { CheckpointManager(dir / "run", {.step_name_format = half}); },
              FailsWith(Code::kInvalidArgument, "both `name` and `parse`"));
  EXPECT_THAT([&] { (void)parse_step_name("epoch=1", half); },
              FailsWith(Code::kInvalidArgument, "both `name` and `parse`"));
}

}  // namespace
}  // namespace cairn::orbax
