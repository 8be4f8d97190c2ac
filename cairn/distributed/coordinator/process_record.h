// process_record.h -- the file by which the others know that a process is there, and whether it
// still is.
//
// {"process": 1, "processes": 4, "silence": 120000, "host": "node7", "pid": 4711, "pid_space":
// "<boot id> pid:[4026531836]", "started": 123456, "nonce": "..."}
#pragma once

#include <cairn/distributed.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::distributed {

struct ProcessRecord {
  std::uint64_t process = 0;
  std::uint64_t processes = 0;  // that it takes the job to have
  std::uint64_t silence = 0;    // milliseconds, its silence_timeout; 0: none
  std::string host;             // for people
  std::uint64_t pid = 0;
  // where that number means this process: the boot of a kernel, and a PID namespace; "" if unknown
  std::string pid_space;
  // when, in the kernel's ticks: the number may be another process's by now
  std::uint64_t started = 0;
  std::string nonce;  // what sets it apart from all others that ever used the folder
  bool operator==(const ProcessRecord&) const = default;
};

// This process, with that place in its job, under a new nonce.
ProcessRecord mark_of_this_process(const FilesJob& job);

std::string mark_text(const ProcessRecord& mark);
// Throws data_loss for what mark_text does not make.
ProcessRecord parse_mark(std::string_view text);

// True if the process is known to have ended; false if it runs, or if that cannot be seen from
// here.
bool has_ended(const ProcessRecord& mark);

// "process 1 (pid 4711 on node7)"
std::string describe(const ProcessRecord& mark);

// 128 random bits, as hexadecimal digits.
std::string random_id();

}  // namespace cairn::distributed
