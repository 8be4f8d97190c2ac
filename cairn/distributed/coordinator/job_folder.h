// job_folder.h -- the shared folder of one run of a job, and how its processes agree on it.
//
//   DIR/.cairn-job/
//     join-<p>                process p > 0 has come and waits for an answer; a record
//     invite                  process 0's answer: {"run": "<id>", "admitted": ["<nonce>", ...]}
//     run-<id>/
//       here-<p>              process p's record, which it touches every few seconds (heartbeat.h)
//       gone-<p>              process p has ended, or process 0 stopped waiting for it to join
//       m-<name>-<n>-<p>-..   process p has come to the n-th collective of that name; a message
//       d-<name>-<n>          how that collective ended; a message whose value is "" or the reason
//                             why it failed
//
// A record is an encoded ProcessRecord (process_record.h). The answer lists the nonces of the
// requests that it answers, so neither side can mistake files of an earlier run for files of this
// run. A process writes every file under a temporary name, syncs it, and then links or renames it:
// the file exists whole or not at all. A process leaves its record before others can wait for it:
// process 0 before it writes the invite, the others before they remove their requests.
#pragma once

#include <cairn/distributed.h>
#include <cairn/distributed/coordinator/heartbeat.h>
#include <cairn/distributed/coordinator/process_record.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cairn::inline v0::distributed {

// The names of files in a folder, sorted.
using Names = std::set<std::string, std::less<>>;

// Reads a file that the process which wrote it touches while it lives. Returns nullopt if it does not
// exist. Throws data_loss if it has more than `most` bytes.
std::optional<std::string> try_read_touched(const std::string& path, std::uint64_t most);
// Reads and decodes a mark. Throws data_loss, naming the file, for a damaged mark.
ProcessRecord read_record(const std::string& path);
// Creates a file with this content unless it exists; if several processes try, one succeeds.
// Returns true if this call created the file.
bool write_new(const std::string& path, ByteView bytes);

// One process's access to the folder of its run. Safe to use from many threads.
class JobFolder {
 public:
  // Agrees with the other processes on a folder, and leaves this process's record there. Throws
  // what files_coordinator throws.
  static std::unique_ptr<JobFolder> join(const FilesJob& job);

  // Leaves this process's record in an existing folder. Throws not_found if the folder no longer
  // exists.
  JobFolder(std::string path, const FilesJob& job);
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  // Records that this process has ended. The last process removes the folder.
  ~JobFolder();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Returns whether a process is known to have ended. `names` are the names in the folder. Throws
  // what check_records throws.
  [[nodiscard]] bool has_ended(std::size_t process, const Names& names) const;
  // Returns whether a process, on any host, has given no sign of life for the job's
  // silence_timeout. Only the time in which this function is called counts.
  [[nodiscard]] bool is_silent(std::size_t process) const;
  // Throws invalid_argument if another process has a different job size or silence_timeout.
  void check_records() const;
  // Records that nobody needs to wait for these processes, which did not join.
  void give_up(const std::vector<std::size_t>& missing) const;

 private:
  // Returns the record of a process; nullopt if it has not left one. Throws what check_records
  // throws.
  [[nodiscard]] std::optional<ProcessRecord> record_of(std::size_t process) const;

  std::string path_;
  std::size_t me_;
  std::size_t count_;
  Coordinator::Timeout silence_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, ProcessRecord> records_;  // the records read so far
  mutable SignsOfLife signs_;
  std::optional<Heartbeat> heartbeat_;
};

}  // namespace cairn::inline v0::distributed
