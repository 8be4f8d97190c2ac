// cgroup.cc -- reads /proc/self/cgroup and the files that it leads to.
#include <cairn/tools/doctor/cgroup.h>

#include <algorithm>
#include <fstream>
#include <istream>
#include <string_view>

namespace cairn::inline v0::doctor {
namespace {

// Version 1 writes the largest number of pages where there is no limit.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60U;

// The numbers at the start of a file; fewer than asked for if it says "max" or does not exist.
template <class Number>
std::optional<Number> number_in(std::istream& in) {
  Number value{};
  return in >> value ? std::optional(value) : std::nullopt;
}

template <class T>
void lower(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

void add_memory(const std::string& file, CgroupLimits& limits) {
  std::ifstream in(file);
  const auto bytes = number_in<std::uint64_t>(in);
  if (bytes && *bytes < kNoLimit) lower(limits.memory, *bytes);
}

void add_quota(std::optional<double> quota, std::optional<double> period, CgroupLimits& limits) {
  if (quota && period && *quota > 0 && *period > 0) lower(limits.processors, *quota / *period);
}

// "0::/user/job" in version 2, "4:memory:/user/job" in version 1.
struct Group {
  std::string controllers;
  std::string path;

  [[nodiscard]] bool has(std::string_view controller) const {
    return ("," + controllers + ",").find("," + std::string(controller) + ",") != std::string::npos;
  }
};

std::optional<Group> parse_group(const std::string& line) {
  const std::size_t first = line.find(':');
  const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  return Group{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
}

// Calls f with the folder of the group and with those above it. In a container the path may be that
// of the host, whose folders are not visible: only the last call, with the top, finds files.
template <class F>
void for_each_level(const std::string& top, std::string path, F f) {
  while (!path.empty() && path != "/") {
    f(top + path);
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  f(top);
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  const std::string top = root + "/sys/fs/cgroup";
  CgroupLimits limits;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto group = parse_group(line);
    if (!group) continue;
    if (group->controllers.empty())
      for_each_level(top, group->path, [&](const std::string& folder) {
        add_memory(folder + "/memory.max", limits);
        std::ifstream in(folder + "/cpu.max");  // "150000 100000"
        const auto quota = number_in<double>(in);
        add_quota(quota, number_in<double>(in), limits);
      });
    if (group->has("memory"))
      for_each_level(top + "/memory", group->path, [&](const std::string& folder) {
        add_memory(folder + "/memory.limit_in_bytes", limits);
      });
    if (group->has("cpu"))
      for_each_level(top + "/cpu", group->path, [&](const std::string& folder) {
        std::ifstream quota(folder + "/cpu.cfs_quota_us");
        std::ifstream period(folder + "/cpu.cfs_period_us");
        add_quota(number_in<double>(quota), number_in<double>(period), limits);
      });
  }
  return limits;
}

}  // namespace cairn::inline v0::doctor
