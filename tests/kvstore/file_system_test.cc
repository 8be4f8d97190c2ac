// file_system_test.cc -- names of file systems.
#include <cairn/kvstore/file_system.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

TEST(FileSystem, TellsWhatItKnows) {
  EXPECT_EQ(file_system_of("/proc").name, "file system 40864");  // procfs
  EXPECT_FALSE(file_system_of("/proc").is_remote);
  const testing::TempDir dir;
  EXPECT_NE(file_system_of(dir.path()).name, "");
  EXPECT_EQ(file_system_of(dir / "absent").name, "an unknown file system");
  EXPECT_FALSE(file_system_of(dir / "absent").is_remote);
}

}  // namespace
}  // namespace cairn
