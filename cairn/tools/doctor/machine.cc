// machine.cc -- check_machine(): versions, processor, memory and limits.
#include <cairn/tools/doctor/doctor.h>

#include <cairn/array/cast_plan.h>
#include <cairn/base/checksum.h>
#include <cairn/base/executor.h>
#include <cairn/base/fingerprint.h>
#include <cairn/codec/codecs.h>
#include <cairn/compression.h>
#include <cairn/open.h>
#include <cairn/tools/doctor/cgroup.h>
#include <cairn/tools/doctor/checks.h>
#include <cairn/tree/transform/regex.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace cairn::inline v0::doctor {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
constexpr std::uint64_t kLeastMemory = 2 * kGiB;  // twice what a command uses by default
constexpr rlim_t kLeastFiles = 4096;

void append(std::vector<Check>& checks, Section section) {
  auto more = std::move(section).take();
  std::move(more.begin(), more.end(), std::back_inserter(checks));
}

// The value of the first line "KEY<separator>VALUE" of a file; "" if there is none.
std::string value_in(const char* file, std::string_view key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != at) continue;
    const std::size_t first = line.find_first_not_of(" \t\"", at + 1);
    const std::size_t last = line.find_last_not_of(" \t\"");
    return first == std::string::npos ? "" : line.substr(first, last + 1 - first);
  }
  return "";
}

std::string compiler() {
#if defined(__clang__)
  return __VERSION__;  // "Clang 14.0.6"
#else
  return "GCC " __VERSION__;
#endif
}

Section check_cairn() {
  Section section("cairn");
  section.good("version", std::string(version()));
  section.good("compiler", compiler());
#ifdef NDEBUG
  section.good("assertions", "off");
#else
  section.good("assertions", "on");
#endif
  return section;
}

Section check_system() {
  Section section("system");
  if (const std::string name = value_in("/etc/os-release", "PRETTY_NAME", '='); !name.empty())
    section.good("distribution", name);
  utsname about{};
  if (::uname(&about) == 0)
    section.good("kernel", std::string(about.sysname) + " " + about.release + " " + about.machine);
  section.good("libc", std::string("glibc ") + gnu_get_libc_version());
  return section;
}

Section check_libraries() {
  Section section("libraries");
  for (const auto& [name, version] : codec::library_versions()) {
    const std::string limitation = name == "zstd" ? codec_limitation() : "";
    limitation.empty() ? section.good(name, version) : section.note(name, version, limitation);
  }
  section.good("xxhash", fingerprint_library_version());
  section.good("pcre2", regex_library_version());
  return section;
}

// The instruction sets that matter to Cairn and its libraries, as /proc/cpuinfo names them.
std::string instruction_sets() {
  static constexpr std::array kKnown = {"sse4_2", "pclmulqdq", "avx",      "avx2",
                                        "f16c",   "avx512f",   "avx512bw", "vpclmulqdq",
                                        "asimd",  "crc32",     "pmull",    "sve"};
  std::string flags = value_in("/proc/cpuinfo", "flags", ':');
  if (flags.empty()) flags = value_in("/proc/cpuinfo", "Features", ':');
  std::istringstream in(flags);
  std::string found;
  for (std::string word; in >> word;)
    if (std::find(kKnown.begin(), kKnown.end(), word) != kKnown.end())
      found.append(found.empty() ? "" : " ").append(word);
  return found.empty() ? "none that matter to Cairn" : found;
}

Section check_processor(const CgroupLimits& limits) {
  Section section("processor");
  if (const std::string model = value_in("/proc/cpuinfo", "model name", ':'); !model.empty())
    section.good("model", model);
  section.good("instruction sets", instruction_sets());
  section.good("casts use", std::string(cast_instructions()));
  section.good("checksums use", checksum_library());
  const std::size_t threads = default_executor().threads();
  const std::string count = std::to_string(threads);
  const auto quota = limits.processors
                         ? static_cast<std::size_t>(std::max(1.0, std::ceil(*limits.processors)))
                         : threads;
  if (quota < threads)
    section.note("threads", count,
                 "the control group allows about " + std::to_string(quota) +
                     " processors: --threads " + std::to_string(quota) + " may be faster");
  else
    section.good("threads", count);
  return section;
}

// Of /proc/meminfo.
std::optional<std::uint64_t> memory_size(std::string_view name) {
  std::istringstream in(value_in("/proc/meminfo", name, ':'));
  std::uint64_t kilobytes = 0;
  return in >> kilobytes ? std::optional(kilobytes * 1024) : std::nullopt;
}

std::string advice_on_memory(std::uint64_t bytes) {
  if (bytes >= kLeastMemory) return "";
  return "a command may use 1 GiB and more: give a lower --memory";
}

void check_huge_pages(Section& section) {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(in, modes);  // "always [madvise] never"
  const std::size_t begin = modes.find('[');
  const std::size_t end = modes.find(']');
  const std::string mode = begin == std::string::npos || end == std::string::npos || end < begin
                               ? "unknown"
                               : modes.substr(begin + 1, end - begin - 1);
  if (mode == "always" || mode == "madvise") return section.good("huge pages", mode);
  section.note("huge pages", mode,
               "restores are slower: write madvise to "
               "/sys/kernel/mm/transparent_hugepage/enabled");
}

Section check_memory(const CgroupLimits& limits) {
  Section section("memory");
  if (const auto total = memory_size("MemTotal")) section.size("total", *total);
  if (const auto free = memory_size("MemAvailable"))
    section.size("available", *free, advice_on_memory(*free));
  if (limits.memory)
    section.size("control group", *limits.memory, advice_on_memory(*limits.memory));
  else
    section.good("control group", "no limit");
  check_huge_pages(section);
  return section;
}

// nullopt: no limit.
std::optional<std::uint64_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_max;
}

// The hard limits: Cairn raises its own limit of open files to that.
Section check_limits() {
  Section section("limits");
  const auto files = limit_of(RLIMIT_NOFILE);
  if (files && *files < kLeastFiles)
    section.note("open files", std::to_string(*files),
                 "checkpoints of many files need more: raise the hard limit (ulimit -Hn)");
  else
    section.good("open files", files ? std::to_string(*files) : "no limit");
  if (const auto size = limit_of(RLIMIT_FSIZE))
    section.size("file size", *size, "larger files cannot be written (ulimit -f)");
  else
    section.good("file size", "no limit");
  if (const auto space = limit_of(RLIMIT_AS))
    section.size("address space", *space,
                 "Cairn maps the files that it reads: large checkpoints may not fit (ulimit -v)");
  else
    section.good("address space", "no limit");
  return section;
}

}  // namespace

std::vector<Check> check_machine() {
  const CgroupLimits limits = cgroup_limits();
  std::vector<Check> checks;
  append(checks, check_cairn());
  append(checks, check_system());
  append(checks, check_libraries());
  append(checks, check_processor(limits));
  append(checks, check_memory(limits));
  append(checks, check_limits());
  return checks;
}

}  // namespace cairn::inline v0::doctor
