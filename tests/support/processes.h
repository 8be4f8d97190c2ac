// processes.h -- threads that pose as the processes of a job, each with its end of it, and what
// became of each.
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

// Runs each process's part in a thread of its own; a process that is through with it is gone for
// the others. The errors they ended with, in their order.
inline std::vector<std::optional<Error>> run_as_processes(
    std::size_t count, const std::function<void(const std::shared_ptr<Coordinator>&)>& part) {
  auto coordinators = threads_as_processes(count);
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
