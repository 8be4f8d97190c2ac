// calls.cc -- runs the work in a thread of its own while the caller's thread serves Python.
#include "calls.h"

#include "gil.h"

#include <cairn/error.h>

#include <nanobind/stl/string.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace cairn::python {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(100);
constexpr auto kShort = std::chrono::milliseconds(2);  // most calls end before Python need be asked

struct Counters {
  std::atomic<std::uint64_t> done = 0, total = 0;
};

// Tells Python the progress; returns whether it raised an exception, which is then set.
bool progress_raises(nb::handle progress, const Counters& counters) {
  if (progress.is_none() || counters.total == 0) return false;
  PyObject* result = PyObject_CallFunction(progress.ptr(), "KK",
                                           static_cast<unsigned long long>(counters.done.load()),
                                           static_cast<unsigned long long>(counters.total.load()));
  Py_XDECREF(result);
  return result == nullptr;
}

// An exception of Python, and whether `progress` raised it.
struct Raised {
  nb::python_error error;
  bool is_of_progress;
};

// Lets Python handle signals and tells it the progress.
bool raises(nb::handle progress, const Counters& counters, std::optional<Raised>& raised) {
  const bool is_signal = PyErr_CheckSignals() != 0;
  if (is_signal || progress_raises(progress, counters))
    raised.emplace(Raised{nb::python_error(), !is_signal});
  return raised.has_value();
}

// Reports an exception of `progress` where the work has been done nevertheless.
void warn_or_throw(const Raised& raised, Outcome outcome) {
  if (outcome == Outcome::kValue || !raised.is_of_progress ||
      !raised.error.matches(PyExc_Exception))
    throw nb::python_error(raised.error);
  const std::string text = "progress raised " +
                           nb::cast<std::string>(nb::repr(raised.error.value())) +
                           " when the result was already complete; it is in place";
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 2) < 0) throw nb::python_error();
}

}  // namespace

void run_long(nb::handle progress, const std::function<void(const CallControl&)>& work,
              Outcome outcome) {
  Counters counters;
  std::stop_source stop;
  const ProgressFn count = [&](std::uint64_t done, std::uint64_t total) {
    counters.done = done;
    counters.total = total;
    // Work that has no other way to be stopped ends by this exception.
    if (stop.stop_requested()) throw Error(Code::kCancelled, "the caller asked to stop");
  };
  std::optional<Raised> raised;
  std::future<void> running;
  {
    const WithoutGil unlocked;
    running = std::async(std::launch::async, [&] { work({count, stop.get_token()}); });
    if (running.wait_for(kShort) == std::future_status::timeout) {
      while (running.wait_for(kPeriod) == std::future_status::timeout) {
        const WithGil locked;
        if (!raised && until_the_end([&] { return raises(progress, counters, raised); }))
          stop.request_stop();
      }
    }
  }
  if (raised) {
    try {
      running.get();
    } catch (...) {
      throw nb::python_error(raised->error);
    }
    return warn_or_throw(*raised, outcome);
  }
  running.get();
  if (!progress.is_none() && counters.total != 0 && raises(progress, counters, raised))
    warn_or_throw(*raised, outcome);
}

namespace {

thread_local const void* progress_of = nullptr;  // the saver whose `progress` this thread calls

// For the lifetime of the object, this thread calls the `progress` of a saver.
class InProgressOf {
 public:
  explicit InProgressOf(const void* saver) : before_(std::exchange(progress_of, saver)) {}
  InProgressOf(const InProgressOf&) = delete;
  InProgressOf& operator=(const InProgressOf&) = delete;
  ~InProgressOf() { progress_of = before_; }

 private:
  const void* before_;
};

}  // namespace

void refuse_in_own_progress(const void* saver) {
  if (progress_of == saver)
    throw Error(Code::kFailedPrecondition,
                "progress calls a function that waits for the save that it is called by; do that "
                "after the save");
}

ProgressFn background_progress(nb::handle progress, const void* saver) {
  if (progress.is_none()) return {};
  const std::shared_ptr<nb::object> function(new nb::object(nb::borrow(progress)),
                                             [](const nb::object* owned) {
                                               const WithGil locked;
                                               delete owned;
                                             });
  return [function, saver](std::uint64_t done, std::uint64_t total) {
    if (total == 0) return;
    const InProgressOf scope(saver);
    const WithGil locked;
    call_python(*function, nb::int_(done), nb::int_(total));
  };
}

}  // namespace cairn::python
