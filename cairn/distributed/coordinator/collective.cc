// collective.cc -- checks, deadlines and messages that all coordinators share.
#include <cairn/distributed/coordinator/collective.h>

#include <cairn/error.h>
#include <fmt/format.h>

#include <utility>

namespace cairn::inline v0 {

std::vector<Bytes> Coordinator::exchange(std::string_view name, ByteView value,
                                         const Delivery& between, Timeout timeout) {
  distributed::check_delivery(between, process_index(), process_count());
  std::vector<Bytes> all = all_gather(name, value, timeout);
  std::vector<Bytes> wanted;
  for (const std::size_t p : between.from) wanted.push_back(std::move(all[p]));
  return wanted;
}

void Coordinator::abort(std::string_view /*name*/, std::string_view /*why*/) noexcept {}

}  // namespace cairn::inline v0

namespace cairn::inline v0::distributed {

void check_root(std::size_t root, std::size_t count) {
  if (root >= count)
    throw Error(Code::kInvalidArgument, "process " + std::to_string(root) +
                                            " cannot broadcast in a job of " +
                                            std::to_string(count) + " processes");
}

void check_delivery(const Coordinator::Delivery& between, std::size_t me, std::size_t count) {
  for (const auto others : {between.to, between.from})
    for (const std::size_t p : others)
      if (p >= count || p == me)
        throw Error(
            Code::kInvalidArgument,
            fmt::format("process {} of {} cannot exchange data with process {}", me, count, p));
}

Clock::time_point deadline_after(Coordinator::Timeout timeout) {
  const auto now = Clock::now();
  const auto most =
      std::chrono::duration_cast<Coordinator::Timeout>(Clock::time_point::max() - now);
  return timeout < most ? now + timeout : Clock::time_point::max();
}

std::string processes_text(std::span<const std::size_t> processes) {
  if (processes.empty()) return "";
  return fmt::format("{} {}", processes.size() == 1 ? "process" : "processes",
                     fmt::join(processes, ", "));
}

std::string timed_out_text(std::span<const std::size_t> missing, std::size_t me,
                           Coordinator::Timeout timeout) {
  return fmt::format("{} did not arrive before process {} timed out after {:g} s",
                     processes_text(missing), me, static_cast<double>(timeout.count()) / 1000);
}

std::string ended_text(std::span<const std::size_t> gone) {
  return processes_text(gone) + " ended before arriving";
}

std::string silent_text(std::span<const std::size_t> silent, std::size_t me,
                        Coordinator::Timeout timeout) {
  return fmt::format("{} was silent for {:g} s, as seen by process {}", processes_text(silent),
                     static_cast<double>(timeout.count()) / 1000, me);
}

std::string aborted_text(std::size_t process, std::string_view why) {
  constexpr std::size_t kMost = 4096;  // bytes; small messages need no flow control
  return fmt::format("process {} aborted: {}", process, why.substr(0, kMost));
}

std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace cairn::inline v0::distributed
