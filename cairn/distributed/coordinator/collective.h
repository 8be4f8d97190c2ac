// collective.h -- the argument checks and error messages that all coordinators share.
#pragma once

#include <cairn/distributed.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace cairn::inline v0::distributed {

// In this folder a "collective" is one collective operation: a barrier, a broadcast, a gather or an
// exchange in which all processes of the job take part.
using Clock = std::chrono::steady_clock;

// Throws invalid_argument if `root` is not a process of the job.
void check_root(std::size_t root, std::size_t count);
// Throws invalid_argument unless every sender and receiver in `between` is a process of the job
// other than process `me`.
void check_delivery(const Coordinator::Delivery& between, std::size_t me, std::size_t count);

// Returns the current time plus the time-out; the latest time_point if that sum is too large.
Clock::time_point deadline_after(Coordinator::Timeout timeout);

// Returns "process 2" or "processes 0, 2"; "" if the list is empty.
std::string processes_text(std::span<const std::size_t> processes);

// Return the reason why a collective failed: "process 2 did not come before process 0 gave up after
// 5 s", "process 2 ended without coming", "process 2 gave no sign of life for 120 s, as process 0
// saw it", "process 2 broke off: out of memory" (only the first 4096 bytes of a longer reason).
std::string timed_out_text(std::span<const std::size_t> missing, std::size_t me,
                           Coordinator::Timeout timeout);
std::string ended_text(std::span<const std::size_t> gone);
std::string silent_text(std::span<const std::size_t> silent, std::size_t me,
                        Coordinator::Timeout timeout);
std::string aborted_text(std::size_t process, std::string_view why);

// Returns the message of the exception that is being handled. Call it in a catch block.
std::string current_exception_text();

}  // namespace cairn::inline v0::distributed
