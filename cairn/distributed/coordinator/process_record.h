// process_record.h -- the file that identifies a process of a job. Other processes use it to find
// out whether that process exists and whether it still runs.
//
// {"process": 1, "processes": 4, "silence": 120000, "host": "node7", "pid": 4711,
//  "pid_space": "<boot id> pid:[4026531836]", "started": 123456, "nonce": "..."}
#pragma once

#include <cairn/distributed.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::inline v0::distributed {

// One process of a job, as its record file describes it.
struct ProcessRecord {
  std::uint64_t process = 0;
  std::uint64_t processes = 0;  // the size of the job, as this process knows it
  std::uint64_t silence = 0;    // its silence_timeout in milliseconds; 0: none
  std::string host;             // only for messages
  std::uint64_t pid = 0;
  // the scope in which `pid` is valid: a kernel boot and a PID namespace; "" if unknown
  std::string pid_space;
  // start time of the process in kernel ticks; another process may have the same pid later
  std::uint64_t started = 0;
  std::string nonce;  // unique among all processes that ever used the folder
  bool operator==(const ProcessRecord&) const = default;
};

// The maximum size of the file, in bytes.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 16U;

// Returns a record of this process, with its index and job size from `job` and a new nonce.
ProcessRecord record_of_this_process(const FilesJob& job);

// Encodes the record as JSON.
std::string record_text(const ProcessRecord& record);
// Decodes the record. Throws data_loss for text that record_text cannot have written.
ProcessRecord parse_record(std::string_view text);

// Returns true if the process is known to have ended. Returns false if it runs, or if this host or
// PID namespace cannot tell.
bool has_ended(const ProcessRecord& record);

// Returns "process 1 (pid 4711 on node7)".
std::string describe(const ProcessRecord& record);

// Returns 128 random bits as hexadecimal digits.
std::string random_id();

}  // namespace cairn::inline v0::distributed
