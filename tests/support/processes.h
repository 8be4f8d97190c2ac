// processes.h -- runs threads in place of the processes of a job, each with its own coordinator,
// and collects the error of each.
#pragma once

#include <cairn/distributed.h>
#include <cairn/error.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::testing {

// Runs the part of each process in its own thread. A process that has finished its part leaves the
// job. Returns the error of each process, in process order.
inline std::vector<std::optional<Error>> run_as_processes(
    std::size_t count, const std::function<void(const std::shared_ptr<Coordinator>&)>& part) {
  auto coordinators = thread_coordinators(count);
  std::vector<std::optional<Error>> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < count; ++p) {
    std::shared_ptr<Coordinator> mine = std::move(coordinators[p]);
    threads.emplace_back([&part, &error = errors[p], mine = std::move(mine)]() mutable {
      try {
        part(mine);
      } catch (const Error& e) {
        error = e;
      }
      mine.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace cairn::testing
