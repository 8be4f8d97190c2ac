// distributed.h -- communication between the processes of a job: barriers, broadcasts and gathers,
// each with a timeout whose error names the missing processes.
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

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// One process's access to the job. Its methods are collective: every process calls the same method
// with the same name, and the n-th call for a name in one process matches the n-th calls of the
// others. Different names may be used at the same time from different threads; one name from one
// thread per process at a time.
//
// Every collective throws unavailable, naming the missing processes, if not all join before the
// timeout. It then fails for late processes as well, and the name can be used again.
class Coordinator {
 public:
  using Timeout = std::chrono::milliseconds;
  // default timeout of a collective: 300 s
  static constexpr Timeout kDefaultTimeout = std::chrono::seconds(300);

  Coordinator() = default;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  virtual ~Coordinator() = default;

  // Index of this process, from 0 to process_count() - 1.
  [[nodiscard]] virtual std::size_t process_index() const = 0;
  [[nodiscard]] virtual std::size_t process_count() const = 0;
  // Maximum size in bytes of the value that a process contributes to a collective.
  [[nodiscard]] virtual std::uint64_t max_value_bytes() const { return std::uint64_t{1} << 30U; }

  // Returns when all processes have called it.
  virtual void barrier(std::string_view name, Timeout timeout) = 0;
  // Returns the value of process `root` in every process; the values of the others are ignored.
  // Throws invalid_argument if `root` is not a process of the job.
  virtual Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                          Timeout timeout) = 0;
  // Returns the values of all processes, in the order of their indices.
  virtual std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) = 0;

  // Receivers and senders of this process in an exchange, for large values needed by few processes.
  // Neither list includes this process. A process must be in another's `to` exactly if the other is
  // in its `from`; otherwise a value may not arrive.
  struct Delivery {
    std::span<const std::size_t> to = {};    // processes that receive this process's value
    std::span<const std::size_t> from = {};  // processes whose values this process receives
  };
  // Sends `value` to the processes in `between.to` and returns the values of the processes in
  // `between.from`, in that order. All processes must take part. Throws invalid_argument for an
  // index that is not another process. The coordinators of this library send values to receivers
  // only; the default implementation gathers all values in every process.
  //
  // After the exchanges under one name, the caller makes another collective call under that name.
  // If an exchange throws in one process only (for example for lack of memory), that process has
  // aborted this next collective.
  virtual std::vector<Bytes> exchange(std::string_view name, ByteView value,
                                      const Delivery& between, Timeout timeout);

  // Joins the next collective of that name only to make it fail: all processes in it throw
  // unavailable with `why` at once, instead of waiting for this process. Does not wait and does not
  // throw. A process that cannot be notified waits until its timeout. The default implementation
  // does nothing.
  virtual void abort(std::string_view name, std::string_view why) noexcept;
};

// The coordinator of a job with one process.
std::unique_ptr<Coordinator> single_process_coordinator();

// Coordinators for `count` threads of this process that act as processes; each thread takes the
// coordinator of its index. Destroying a coordinator ends its process: waiting processes fail at
// once. Throws invalid_argument for a count of 0.
std::vector<std::unique_ptr<Coordinator>> thread_coordinators(std::size_t count);

// A process of a job whose processes share only a folder, on one host or several.
struct FilesJob {
  // The folder, the same for all processes; created if it is missing. The job's files are in its
  // subfolder ".cairn-job", which the last process removes. The file system must support hard
  // links.
  std::string directory;
  std::size_t process_index = 0;  // unique, below process_count
  std::size_t process_count = 1;  // number of processes of the job
  // Distinguishes this run from earlier ones in the same folder. Give all processes the same id and
  // never use it again (1 to 64 letters, digits, '.', '_', '-'). "": process 0 makes an id and
  // agrees on it with all others.
  std::string run_id = {};
  Coordinator::Timeout join_timeout = Coordinator::kDefaultTimeout;  // timeout of that agreement
  // A process from which others get no sign of life for this long counts as dead, on any host. Each
  // process touches a file every twelfth of this time from its own thread, and watches the files of
  // the others while it waits. Must be the same in all processes, which they check. Zero: never.
  Coordinator::Timeout silence_timeout = std::chrono::seconds(120);
  // Maximum size of one value in bytes; larger values are refused.
  std::uint64_t max_message_bytes = std::uint64_t{1} << 30U;
};
// A coordinator that communicates through small files. Without a run_id it returns when process 0
// has answered (in process 0: when all processes have joined), and throws unavailable, naming the
// missing processes, after join_timeout. Leftovers of earlier runs do no harm; leftovers of ended
// processes of this host are removed. Processes on the same host (in the same PID namespace) notice
// a killed process at once, others after the silence_timeout.
//
// Throws invalid_argument for an index outside the job, a malformed run_id, and processes with a
// different process_count or silence_timeout; already_exists if the index is taken; data_loss,
// naming the file, for files that no coordinator wrote.
std::unique_ptr<Coordinator> files_coordinator(const FilesJob& job);

// How several processes save and restore together: Orbax's MultiprocessingOptions, and the
// information that the engine which runs the job provides.
struct MultiprocessingOptions {
  // This process's access to the job; null: it is the only process.
  std::shared_ptr<Coordinator> coordinator = nullptr;
  // The primary process, which creates the folders, writes everything that is not split, merges and
  // commits. None: each process does all of this for itself, in a folder of its own, on a disk that
  // the others may not see.
  std::optional<std::size_t> primary_host = 0;
  // The devices whose shards this process holds, as JAX's local_devices(). None: the process
  // restores the shards of all devices of a sharding. Where processes restore together
  // (SingleReplicaArrayHandler), each must set it, and every device belongs to exactly one process.
  std::optional<std::vector<std::int64_t>> local_devices = {};
  // Prefix of the names of all collectives; an underscore follows it, as in Orbax. Savers that are
  // active at the same time need different prefixes.
  std::optional<std::string> barrier_sync_key_prefix = {};
  Coordinator::Timeout timeout = Coordinator::kDefaultTimeout;  // timeout of a collective
  // Timeout of a collective before which other processes write or read much data.
  Coordinator::Timeout write_timeout = std::chrono::seconds(1200);
};

// One step that all processes of a job take under the same name: runs `work`, then joins the
// others. Returns the results of all processes, in their order. If `work` throws in any process,
// all processes throw: a process with an error throws its own, every other process the error of the
// first process that has one, with "process 2" in front.
std::vector<Bytes> do_together(const MultiprocessingOptions& job, std::string_view name,
                               const std::function<Bytes()>& work);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
