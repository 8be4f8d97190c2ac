// bench_figures.h -- what the measurements of bench_folder() share.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/maintain.h>
#include <cairn/tree.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace cairn::inline v0 {

// Runs `call` and returns how long it took and how often a thread of the process waited.
template <class F>
BenchFigure measure(std::string name, std::uint64_t bytes, F&& call) {
  const auto waits = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return static_cast<std::uint64_t>(used.ru_nvcsw);
  };
  const std::uint64_t before = waits();
  const auto start = std::chrono::steady_clock::now();
  std::forward<F>(call)();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return {std::move(name), bytes, taken.count(), waits() - before};
}

// Makes the system forget what it has in memory of the files below a folder.
void drop_from_cache(const std::string& folder);

// ---- one number of threads ----

inline constexpr std::uint64_t kThreadSteps = 6;  // measurements of measure_threads()

// 10,000 tensors of 1 KiB.
Tree small_tensors();
// Saves and restores both trees with so many threads, in `folder`, which must exist. `large` is
// replaced by what was restored, so that no third copy is in memory. `done` is called after each
// measurement.
ThreadFigures measure_threads(const std::string& folder, Tree& large, const Tree& small,
                              std::size_t threads, const std::function<void()>& done);

}  // namespace cairn::inline v0
