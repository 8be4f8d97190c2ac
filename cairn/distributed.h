// distributed.h -- how the processes of a job meet: barriers, broadcasts, gathering, each with a time-out that says who is
// missing.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace cairn {

// One process's end of the job. A meeting is what all processes call by the same name; the n-th call of a name by one process
// meets the n-th of the others. Different names may be met at the same time from different threads, one name from
// one thread of a process at a time.
//
// Every meeting throws unavailable when not all have come in time, naming those who are missing; then it fails for those
// who come later, too, and the name can be used again.
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

  // Returns when all processes have come.
  virtual void barrier(std::string_view name, Timeout timeout) = 0;
  // What `root` gave, in every process; what the others give does not matter. Throws invalid_argument for a root that is no process.
  virtual Bytes broadcast(std::string_view name, ByteView value, std::size_t root, Timeout timeout) = 0;
  // What every process gave, in the order of their indices.
  virtual std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) = 0;
};

// The only process of its job: nothing to wait for.
std::unique_ptr<Coordinator> single_process();

// `count` (at least 1) threads of this process that pose as processes; each takes the coordinator of its index. When one is
// destroyed, its process is gone: whoever waits for it learns so at once.
std::vector<std::unique_ptr<Coordinator>> threads_as_processes(std::size_t count);

}  // namespace cairn
