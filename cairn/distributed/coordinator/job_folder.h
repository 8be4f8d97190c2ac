// job_folder.h -- the folder in which one run of a job meets, and how its processes agree on it.
//
//   DIR/.cairn-job/join-<p>          process p > 0 has come and waits for an answer; a mark
//                  invite            process 0's answer: {"run": "<id>", "welcome": ["<nonce>",
//                  ...]} run-<id>/here-<p>            process p's mark, which it touches every few
//                  seconds (heartbeat.h)
//                           gone-<p>            process p has ended, or process 0 has given up
//                           waiting for it to join m-<name>-<n>-<p>-.. it has come to the n-th
//                           meeting of that name; a message d-<name>-<n>        how that meeting
//                           ended; a message whose value is "" or why it failed
//
// The answer names the very nonces that it answers, so that neither side can take what an earlier
// run left for the other. Every file is written under another name, synced, and then linked or
// renamed: it is there whole or not at all. Whoever can be waited for has left its mark before:
// process 0 before it invites, the others before they take back their requests.
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
#include <string_view>
#include <vector>

namespace cairn::distributed {

using Names = std::set<std::string, std::less<>>;

// The names in a folder; none if it is not there.
Names names_in(const std::string& folder);
// Throws data_loss, naming the file.
ProcessRecord read_mark(const std::string& path);
// Writes a whole file of that name, unless there is one: of several who try, one wins. Returns
// whether it was us.
bool write_new(const std::string& path, ByteView bytes);

// A process's end of the folder of its run. Safe to use from many threads.
class JobFolder {
 public:
  // Agrees with the others on a folder, and leaves this process's mark there. Throws what
  // files_coordinator throws.
  static std::unique_ptr<JobFolder> join(const FilesJob& job);

  // Leaves this process's mark in a folder that is there. Throws not_found if it is not any more.
  JobFolder(std::string path, const FilesJob& job);
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  // Says that this process has ended; the last one removes the folder.
  ~JobFolder();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Whether a process has ended, as far as can be known: `names` are those in the folder. Throws as
  // check_marks.
  [[nodiscard]] bool has_ended(std::size_t process, const Names& names) const;
  // Whether a process, of another host perhaps, has given no sign of life for the job's
  // silence_timeout while it was asked for.
  [[nodiscard]] bool is_silent(std::size_t process) const;
  // Throws invalid_argument if a process takes the job to have another size, or another
  // silence_timeout.
  void check_marks() const;
  // Says of processes that did not join that nobody needs to wait for them.
  void give_up(const std::vector<std::size_t>& missing) const;

 private:
  [[nodiscard]] std::optional<ProcessRecord> mark_of(std::size_t process) const;

  std::string path_;
  std::size_t me_;
  std::size_t count_;
  Coordinator::Timeout silence_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, ProcessRecord> marks_;  // that have been read
  mutable SignsOfLife signs_;
  std::optional<Heartbeat> heartbeat_;
};

}  // namespace cairn::distributed
