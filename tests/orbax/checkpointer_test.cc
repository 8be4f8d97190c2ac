// checkpointer_test.cc -- checkpoints that are complete or absent, in the foreground and in the
// background.
#include <cairn/io/file.h>
#include <cairn/open.h>
#include <cairn/orbax/checkpointer.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

Tree number(std::int64_t n) { return Tree(Tree::Dict{{"n", Tree(n)}}); }
std::int64_t number_in(const Tree& tree) { return std::get<std::int64_t>(tree.find("n")->value()); }

TEST(Checkpointer, SavesAndRestores) {
  const testing::TempDir dir;
  Checkpointer checkpointer;
  checkpointer.save(dir / "a", {.item = number(7), .custom_metadata = R"({"of": "tree"})"},
                    {.if_exists = IfExists::kFail, .custom_metadata = R"({"lr": 1})"});
  EXPECT_EQ(number_in(checkpointer.restore(dir / "a")), 7);
  EXPECT_EQ(checkpointer.metadata(dir / "a").custom_metadata, R"({"of": "tree"})");
  const std::string text(as_text(read_file(dir / "a/_CHECKPOINT_METADATA")));
  EXPECT_THAT(text, HasSubstr(R"("custom_metadata": {"lr": 1})"));
  EXPECT_TRUE(file_exists(dir / "a/commit_success.txt"));
}

TEST(Checkpointer, ReplacesOnlyWhenForced) {
  const testing::TempDir dir;
  Checkpointer checkpointer;
  checkpointer.save(dir / "a", {.item = number(1)});
  EXPECT_EQ(error_of([&] { checkpointer.save(dir / "a", {.item = number(2)}); }).code(),
            Code::kAlreadyExists);
  EXPECT_EQ(number_in(checkpointer.restore(dir / "a")), 1);
  checkpointer.save(dir / "a", {.item = number(2)}, {.if_exists = IfExists::kReplace});
  EXPECT_EQ(number_in(checkpointer.restore(dir / "a")), 2);
}

TEST(Checkpointer, ASaveThatFailsLeavesNothing) {
  const testing::TempDir dir;
  Checkpointer checkpointer;
  checkpointer.save(dir / "a", {.item = number(1)});
  EXPECT_EQ(error_of([&] {
              checkpointer.save(dir / "a", {.item = Tree()}, {.if_exists = IfExists::kReplace});
            }).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(number_in(checkpointer.restore(dir / "a")), 1);
  EXPECT_EQ(error_of([&] {
              checkpointer.save(dir / "b", {.item = number(1)},
                                {.if_exists = IfExists::kFail, .custom_metadata = "[1]"});
            }).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(Checkpointer, UnfinishedOnesAreNotRestored) {
  const testing::TempDir dir;
  Checkpointer checkpointer;
  checkpointer.save(dir / "a", {.item = number(1)});
  std::filesystem::rename(dir / "a", dir / "a.orbax-checkpoint-tmp");
  EXPECT_EQ(error_of([&] {
              static_cast<void>(checkpointer.restore(dir / "a.orbax-checkpoint-tmp"));
            }).code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(error_of([&] { static_cast<void>(checkpointer.restore(dir / "a")); }).code(),
            Code::kNotFound);
}

TEST(AsyncCheckpointer, SavesInTheBackgroundOneAtATime) {
  const testing::TempDir dir;
  AsyncCheckpointer checkpointer;
  for (int i = 0; i < 5; ++i) checkpointer.save(dir / std::to_string(i), {.item = number(i)});
  checkpointer.wait_until_finished();
  checkpointer.check_for_errors();
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(number_in(checkpointer.restore(dir / std::to_string(i))), i);
}

TEST(AsyncCheckpointer, ErrorsComeOnceAndNothingIsLeft) {
  const testing::TempDir dir;
  // Fails behind the blocking part: finalizing calls a handler that throws.
  class Failing : public StringHandler {
    void finalize(const std::string&) const override {
      throw Error(Code::kUnavailable, "not today");
    }
  };
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(std::string), std::make_shared<Failing>(), {nullptr, true});
  PyTreeCheckpointHandlerOptions options;
  options.type_handler_registry = registry;
  AsyncCheckpointer checkpointer(options);
  checkpointer.save(dir / "a", {.item = number(1)});
  EXPECT_THAT(error_of([&] { checkpointer.wait_until_finished(); }).what(), HasSubstr("not today"));
  checkpointer.wait_until_finished();
  checkpointer.check_for_errors();
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  checkpointer.save(dir / "b", {.item = number(1)});
  EXPECT_THAT(error_of([&] { checkpointer.save(dir / "c", {.item = number(1)}); }).what(),
              HasSubstr("not today"));
}

TEST(AsyncCheckpointer, ClosedOnesSaveNothing) {
  const testing::TempDir dir;
  AsyncCheckpointer checkpointer;
  checkpointer.save(dir / "a", {.item = number(1)});
  checkpointer.close();
  EXPECT_TRUE(file_exists(dir / "a/commit_success.txt"));
  EXPECT_EQ(error_of([&] { checkpointer.save(dir / "b", {.item = number(1)}); }).code(),
            Code::kFailedPrecondition);
}

TEST(AsyncCheckpointer, SavesAnItemOfAStep) {
  const testing::TempDir dir;
  AsyncCheckpointer checkpointer;
  checkpointer.save(dir / "3", {.item = number(7)}, {.item = "default"});
  checkpointer.wait_until_finished();
  EXPECT_EQ(number_in(checkpointer.restore(dir / "3/default")), 7);
  EXPECT_EQ(std::get<std::int64_t>(load(dir / "3").at("n").value()), 7);
  const std::string text(as_text(read_file(dir / "3/_CHECKPOINT_METADATA")));
  EXPECT_THAT(text, HasSubstr(R"("item_handlers": {"default": )"));
  for (const char* bad : {"", ".", "..", "a/b", "x.orbax-checkpoint-tmp"})
    EXPECT_EQ(
        error_of([&] { checkpointer.save(dir / "4", {.item = number(1)}, {.item = bad}); }).code(),
        Code::kInvalidArgument)
        << bad;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

}  // namespace
}  // namespace cairn
