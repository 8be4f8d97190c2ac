// calls.cc -- runs the work in a thread of its own while the caller's thread serves Python.
#include "calls.h"

#include "gil.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <optional>

namespace nb = nanobind;

namespace cairn::python {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(100);
constexpr auto kShort = std::chrono::milliseconds(2);  // most calls end before Python need be asked

struct Counters {
  std::atomic<std::uint64_t> done = 0, total = 0;
};

// Lets Python handle signals and tells it the progress; returns whether it raised an exception,
// which is then set.
bool raises(nb::handle progress, const Counters& counters) {
  if (PyErr_CheckSignals() != 0) return true;
  if (progress.is_none() || counters.total == 0) return false;
  PyObject* result = PyObject_CallFunction(progress.ptr(), "KK",
                                           static_cast<unsigned long long>(counters.done.load()),
                                           static_cast<unsigned long long>(counters.total.load()));
  Py_XDECREF(result);
  return result == nullptr;
}

}  // namespace

void run_long(nb::handle progress, const std::function<void(const CallControl&)>& work) {
  Counters counters;
  std::stop_source stop;
  const ProgressFn count = [&](std::uint64_t done, std::uint64_t total) {
    counters.done = done;
    counters.total = total;
  };
  std::optional<nb::python_error> raised;
  std::future<void> running;
  {
    const WithoutGil unlocked;
    running = std::async(std::launch::async, [&] { work({count, stop.get_token()}); });
    if (running.wait_for(kShort) == std::future_status::timeout) {
      while (running.wait_for(kPeriod) == std::future_status::timeout) {
        const WithGil locked;
        if (raised || !until_the_end([&] { return raises(progress, counters); })) continue;
        raised.emplace();
        stop.request_stop();
      }
    }
  }
  if (raised) throw nb::python_error(*raised);
  running.get();
  if (!progress.is_none() && counters.total != 0 && raises(progress, counters))
    throw nb::python_error();
}

}  // namespace cairn::python
