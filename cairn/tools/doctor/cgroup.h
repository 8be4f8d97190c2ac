// cgroup.h -- the limits that a container or a batch system sets to this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cairn::inline v0::doctor {

// nullopt: no limit.
struct CgroupLimits {
  std::optional<std::uint64_t> memory = {};  // bytes
  std::optional<double> processors = {};     // 1.5: one and a half
};

// The least limits of this process's control group and of all above it; version 1 and version 2.
// `root` comes before /proc and /sys; tests give a folder of their own.
CgroupLimits cgroup_limits(const std::string& root = "");

}  // namespace cairn::inline v0::doctor
