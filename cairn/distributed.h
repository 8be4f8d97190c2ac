// distributed.h -- how the processes of a job meet: barriers, broadcasts, gathering, each with a
// time-out that says who is missing.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// One process's end of the job. A meeting is what all processes call by the same name; the n-th
// call of a name by one process meets the n-th of the others. Different names may be met at the
// same time from different threads, one name from one thread of a process at a time.
//
// Every meeting throws unavailable when not all have come in time, naming those who are missing;
// then it fails for those who come later, too, and the name can be used again.
class Coordinator {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout kDefaultTimeout = std::chrono::seconds(300);

  Coordinator() = default;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  virtual ~Coordinator() = default;

  [[nodiscard]] virtual std::size_t process_index() const = 0;
  [[nodiscard]] virtual std::size_t process_count() const = 0;
  // The longest value that a process may give to a meeting.
  [[nodiscard]] virtual std::uint64_t max_value_bytes() const { return std::uint64_t{1} << 30U; }

  // Returns when all processes have come.
  virtual void barrier(std::string_view name, Timeout timeout) = 0;
  // What `root` gave, in every process; what the others give does not matter. Throws
  // invalid_argument for a root that is no process.
  virtual Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                          Timeout timeout) = 0;
  // What every process gave, in the order of their indices.
  virtual std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) = 0;

  // For large values that few want: to whom this process's goes, and whose it wants, itself never;
  // a process is in another's `to` just when that one is in its `from`, else nothing may come.
  struct Delivery {
    std::span<const std::size_t> to;
    std::span<const std::size_t> from;
  };
  // A meeting of all, too; returns what the processes of `from` gave, in their order. Throws
  // invalid_argument for one that is no other process. The coordinators of this library move no
  // value to who does not want it; where it is not overridden, all get all. Deliveries of a name
  // follow each other, and then comes another meeting of that name: where one throws in one process
  // alone, for want of memory perhaps, this process has broken off the next one.
  virtual std::vector<Bytes> exchange(std::string_view name, ByteView value,
                                      const Delivery& between, Timeout timeout);

  // Comes to the next meeting of that name only to say that it fails: whoever is there, or comes,
  // throws unavailable with `why` at once, in place of waiting for this process. Does not wait
  // itself, and throws nothing: who cannot be told waits until its time is over. So do all where it
  // is not overridden.
  virtual void abort(std::string_view name, std::string_view why) noexcept;
};

// The only process of its job: nothing to wait for.
std::unique_ptr<Coordinator> single_process();

// `count` (at least 1) threads of this process that pose as processes; each takes the coordinator
// of its index. When one is destroyed, its process is gone: whoever waits for it learns so at once.
std::vector<std::unique_ptr<Coordinator>> threads_as_processes(std::size_t count);

// A process's place in a job whose processes share nothing but a folder, on one host or on several.
struct FilesJob {
  // The same folder for all processes; made if it is not there. The job's files are in its
  // sub-folder ".cairn-job", which goes away with the last process. The file system must have hard
  // links.
  std::string directory;
  std::size_t process_index = 0;
  std::size_t process_count = 1;
  // What sets this run apart from earlier ones in the same folder: given to all processes alike and
  // never used again (1 to 64 letters, digits, '.', '_', '-'), or empty: process 0 makes one up and
  // agrees on it with all others.
  std::string run_id = {};
  Coordinator::Timeout join_timeout = Coordinator::kDefaultTimeout;  // for that agreement
  // After how long without a sign of life a process that others wait for is taken for dead, on
  // whatever host it is: each touches a file every twelfth of it, from a thread of its own, and
  // watches the others' while it waits. The same in all processes, which they check; zero: never.
  Coordinator::Timeout silence_timeout = std::chrono::seconds(120);
  // of one value; larger ones are refused
  std::uint64_t max_message_bytes = std::uint64_t{1} << 30U;
};
// Meets through small files. Without a run_id it returns when process 0 has answered, in process 0
// when all processes are there, and throws unavailable, naming who is missing, if that takes longer
// than join_timeout. What earlier runs left in the folder does no harm; what is left by processes
// of this host that have ended is removed. A process that was killed is known at once to have ended
// to those on the same host (in the same PID namespace), to others after the silence_timeout.
// Throws invalid_argument for a place outside the job, a bad run_id, and processes that disagree
// about their number or the silence_timeout; already_exists if the place is taken; data_loss,
// naming the file, for files that no coordinator wrote.
std::unique_ptr<Coordinator> files_coordinator(const FilesJob& job);

// How several processes save, and restore, together; Orbax's MultiprocessingOptions, and what it
// takes from the engine that runs the job.
struct MultiprocessingOptions {
  // this process's end of the job; null: it is the only process
  std::shared_ptr<Coordinator> coordinator = nullptr;
  // The process that makes the folders, writes what is not divided, merges and commits. None: each
  // does all that for itself, in a folder of its own, on a disk that the others may not see.
  std::optional<std::size_t> primary_host = 0;
  // The devices whose shards this process holds, as JAX's local_devices(). None: it restores the
  // shards of all devices that a sharding has. Where the processes restore together
  // (SingleReplicaArrayHandler), each must say, and every device is one process's.
  std::optional<std::vector<std::int64_t>> local_devices = {};
  // In front of the names of all meetings: two savers that are at work at the same time must not
  // meet each other.
  std::string barrier_sync_key_prefix = {};
  Coordinator::Timeout timeout = Coordinator::kDefaultTimeout;  // of a meeting
  // of a meeting before which others write, or read, much
  Coordinator::Timeout write_timeout = std::chrono::seconds(1200);
};

// One step that all processes of a job take: does `work`, then meets the others, who do theirs by
// the same name. If it threw in any process, this throws in all: its own error where there is one,
// else that of the first process that has one, with "process 2" in front. Returns what each
// process's work gave, in their order.
std::vector<Bytes> do_together(const MultiprocessingOptions& job, std::string_view name,
                               const std::function<Bytes()>& work);

}  // namespace cairn
