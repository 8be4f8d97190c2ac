// collective.h -- what every kind of coordinator checks and says in the same words.
#pragma once

#include <cairn/distributed.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace cairn::distributed {

using Clock = std::chrono::steady_clock;

// Throws invalid_argument for a root that is no process of the job.
void check_root(std::size_t root, std::size_t count);
// Throws invalid_argument unless all whom process `me` gives to or gets from are other processes of
// the job.
void check_delivery(const Coordinator::Delivery& between, std::size_t me, std::size_t count);

// Now plus the time-out, or the end of time.
Clock::time_point deadline_after(Coordinator::Timeout timeout);

// "process 2", "processes 0, 2"; "" for none.
std::string processes_text(std::span<const std::size_t> processes);

// Why a meeting failed: "process 2 did not come before process 0 gave up after 5 s", "process 2
// ended without coming", "process 2 gave no sign of life for 120 s, as process 0 saw it", "process
// 2 broke off: out of memory" (of a long text the beginning).
std::string gave_up_text(std::span<const std::size_t> missing, std::size_t me,
                         Coordinator::Timeout timeout);
std::string ended_text(std::span<const std::size_t> gone);
std::string silent_text(std::span<const std::size_t> silent, std::size_t me,
                        Coordinator::Timeout timeout);
std::string broke_off_text(std::size_t process, std::string_view why);

// Of the exception that is being handled.
std::string current_exception_text();

}  // namespace cairn::distributed
