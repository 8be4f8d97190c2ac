// process_record.cc -- identifies processes through the kernel's /proc.
#include <cairn/distributed/coordinator/process_record.h>

#include <cairn/base/json/json.h>
#include <cairn/error.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>

namespace cairn::inline v0::distributed {
namespace {

constexpr JsonLimits kLimits = {.max_depth = 4, .max_bytes = 1U << 16U};

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string this_pid_space() {
  std::error_code error;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  return error || boot.empty() ? "" : boot + " " + space.string();
}

// The state and the start time of a process, from /proc.
struct Seen {
  char state = 0;
  std::uint64_t started = 0;
};

std::optional<Seen> look_at(std::uint64_t pid) {
  // Of the main thread, which starts with the process. QEMU's user mode replaces /proc/PID/stat of
  // a process that reads its own: each thread would read another start time.
  const std::string line = first_line(fmt::format("/proc/{0}/task/{0}/stat", pid));
  // the program's name may hold any character, including ')'
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  Seen seen;
  fields >> seen.state;
  constexpr int kBetween = 18;  // fields 4 to 21; proc(5) counts from 1
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  if (!(fields >> seen.started)) return std::nullopt;
  return seen;
}

std::uint64_t number(const Json& json, std::string_view member) {
  const Json* value = json.find(member);
  const auto found = value == nullptr ? std::nullopt : value->as_uint64();
  if (!found)
    throw Error(Code::kDataLoss,
                "not a process record: '" + std::string(member) + "' is not a number");
  return *found;
}

std::string text(const Json& json, std::string_view member) {
  const Json* value = json.find(member);
  const std::string* found = value == nullptr ? nullptr : value->as_string();
  if (found == nullptr)
    throw Error(Code::kDataLoss,
                "not a process record: '" + std::string(member) + "' is not a string");
  return *found;
}

}  // namespace

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

ProcessRecord record_of_this_process(const FilesJob& job) {
  ProcessRecord record{.process = job.process_index, .processes = job.process_count};
  record.silence =
      static_cast<std::uint64_t>(std::max<std::int64_t>(job.silence_timeout.count(), 0));
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) record.host = host.data();
  record.pid = static_cast<std::uint64_t>(getpid());
  const auto seen = look_at(record.pid);
  record.pid_space = seen ? this_pid_space() : "";
  record.started = seen ? seen->started : 0;
  record.nonce = random_id();
  return record;
}

std::string record_text(const ProcessRecord& record) {
  Json json;
  json.set("process", record.process);
  json.set("processes", record.processes);
  json.set("silence", record.silence);
  json.set("host", record.host);
  json.set("pid", record.pid);
  json.set("pid_space", record.pid_space);
  json.set("started", record.started);
  json.set("nonce", record.nonce);
  return to_text(json, JsonStyle::kPython);
}

ProcessRecord parse_record(std::string_view encoded) {
  const Json json = parse_json(encoded, kLimits);
  ProcessRecord record;
  record.process = number(json, "process");
  record.processes = number(json, "processes");
  record.silence = number(json, "silence");
  record.host = text(json, "host");
  record.pid = number(json, "pid");
  record.pid_space = text(json, "pid_space");
  record.started = number(json, "started");
  record.nonce = text(json, "nonce");
  return record;
}

bool has_ended(const ProcessRecord& record) {
  if (record.pid_space.empty() || record.pid_space != this_pid_space()) return false;
  const auto seen = look_at(record.pid);
  // A dead process stays listed until its parent collects its exit status.
  return !seen || seen->started != record.started || seen->state == 'Z' || seen->state == 'X';
}

std::string describe(const ProcessRecord& record) {
  return fmt::format("process {} (pid {} on {})", record.process, record.pid, record.host);
}

}  // namespace cairn::inline v0::distributed
