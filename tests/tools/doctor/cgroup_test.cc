// cgroup_test.cc -- limits of control groups, from folders that look like /proc and /sys.
#include <cairn/tools/doctor/cgroup.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace cairn::inline v0::doctor {
namespace {

struct WrittenFile {
  std::string path;
  std::string text;
};

CgroupLimits limits_of(const std::string& group, const std::vector<WrittenFile>& files) {
  const cairn::testing::TempDir root;
  const auto write = [&](const WrittenFile& file) {
    const std::filesystem::path path = root.path() + file.path;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << file.text;
  };
  write({"/proc/self/cgroup", group});
  for (const WrittenFile& file : files) write({"/sys/fs/cgroup" + file.path, file.text});
  return cgroup_limits(root.path());
}

TEST(Cgroup, NoneWithoutFiles) {
  const CgroupLimits limits = limits_of("", {});
  EXPECT_FALSE(limits.memory);
  EXPECT_FALSE(limits.processors);
}

TEST(Cgroup, Version2TakesTheLeastOfAllLevels) {
  const CgroupLimits limits = limits_of("0::/user/job\n", {{"/user/job/memory.max", "4096\n"},
                                                           {"/user/memory.max", "1024\n"},
                                                           {"/user/job/cpu.max", "max 100000\n"},
                                                           {"/user/cpu.max", "150000 100000\n"}});
  EXPECT_EQ(limits.memory, 1024U);
  EXPECT_EQ(limits.processors, 1.5);
}

TEST(Cgroup, Version2WithoutLimit) {
  const CgroupLimits limits =
      limits_of("0::/a\n", {{"/a/memory.max", "max\n"}, {"/a/cpu.max", "max 100000\n"}});
  EXPECT_FALSE(limits.memory);
  EXPECT_FALSE(limits.processors);
}

// The path is that of the host; the container sees its own group at the top.
TEST(Cgroup, ContainersSeeTheTopAlone) {
  const CgroupLimits limits = limits_of("0::/host/pod/box\n", {{"/memory.max", "2048\n"}});
  EXPECT_EQ(limits.memory, 2048U);
}

TEST(Cgroup, Version1) {
  const CgroupLimits limits = limits_of("9:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n",
                                        {{"/memory/job/memory.limit_in_bytes", "8192\n"},
                                         {"/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                                         {"/cpu/job/cpu.cfs_quota_us", "50000\n"},
                                         {"/cpu/job/cpu.cfs_period_us", "100000\n"},
                                         {"/cpu/cpu.cfs_quota_us", "-1\n"},
                                         {"/cpu/cpu.cfs_period_us", "100000\n"}});
  EXPECT_EQ(limits.memory, 8192U);
  EXPECT_EQ(limits.processors, 0.5);
}

TEST(Cgroup, DamagedFiles) {
  const CgroupLimits limits = limits_of("nonsense\n0:\n0::job\n0::/job\n",
                                        {{"/job/memory.max", "many"}, {"/job/cpu.max", "1 0\n"}});
  EXPECT_FALSE(limits.memory);
  EXPECT_FALSE(limits.processors);
}

}  // namespace
}  // namespace cairn::inline v0::doctor
