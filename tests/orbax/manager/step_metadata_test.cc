// step_metadata_test.cc -- metadata of steps that the comparison with the real package
// (tests/interop/orbax/test_step_metadata.py) does not have: missing and damaged files.
#include <cairn/checkpoint_manager.h>
#include <cairn/io/file.h>
#include <cairn/orbax/checkpointer.h>
#include <gtest/gtest.h>

#include "tests/orbax/manager/small_steps.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn::orbax {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::put_file;
using cairn::testing::save_step;
using cairn::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StepMetadata, WhatIsNotRecordedStaysEmpty) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run");
  save_step(manager, 1);
  manager.wait_until_finished();
  std::filesystem::remove(dir / "run/1/_CHECKPOINT_METADATA");
  const StepMetadata found = manager.metadata(1);
  EXPECT_EQ(found.init_timestamp_ns, std::nullopt);
  EXPECT_EQ(found.commit_timestamp_ns, std::nullopt);
  EXPECT_THAT(found.item_handlers, IsEmpty());
  EXPECT_THAT(found.items, ElementsAre("default"));
  EXPECT_EQ(found.metrics, std::nullopt);
  EXPECT_EQ(found.custom_metadata, "");
}

TEST(StepMetadata, Errors) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run");
  save_step(manager, 1);
  manager.wait_until_finished();
  EXPECT_THAT([&] { (void)manager.metadata(2); }, FailsWith(Code::kNotFound, "no such step"));
  EXPECT_THAT([&] { (void)read_step_metadata(dir / "none"); }, FailsWith(Code::kNotFound, "none"));
  EXPECT_THAT([&] { (void)read_step_metadata(dir / "run"); },
              FailsWith(Code::kInvalidArgument, "directory of steps"));
  put_file(dir / "run/1/_CHECKPOINT_METADATA", "{");
  EXPECT_THAT([&] { (void)manager.metadata(1); },
              FailsWith(Code::kDataLoss, "_CHECKPOINT_METADATA"));
}

TEST(StepMetadata, AnErrorNamesTheFileOnce) {
  const TempDir dir = TempDir::in_memory();
  CheckpointManager manager(dir / "run");
  save_step(manager, 1);
  manager.wait_until_finished();
  for (const char* name : {"_CHECKPOINT_METADATA", "metrics/metrics"}) {
    const std::string file = dir / "run/1/" + name;
    std::filesystem::remove(file);
    std::filesystem::create_directories(file);
    try {
      (void)manager.metadata(1);
      ADD_FAILURE() << file;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kDataLoss);
      EXPECT_NE(e.message().find(file), std::string::npos) << e.message();
      EXPECT_EQ(e.message().find(file), e.message().rfind(file)) << e.message();
    }
    std::filesystem::remove(file);
    put_file(file, "{}");
  }
}

}  // namespace
}  // namespace cairn::orbax
