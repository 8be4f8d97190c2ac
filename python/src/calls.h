// calls.h -- long calls of the library: without Python's lock, with progress and Ctrl-C.
#pragma once

#include <cairn/checkpoint.h>

#include <nanobind/nanobind.h>

#include <functional>
#include <stop_token>

namespace cairn::python {

// Runs `work` without Python's lock, so that other threads of Python go on. `progress` (None, or a
// callable that takes bytes done and bytes in total) is called in this thread about ten times a
// second.
//
// Python's signals are handled meanwhile, if this is the main thread. An exception, of a signal
// (KeyboardInterrupt) or of `progress`, asks the work to stop and is raised when it has ended.
//
// With kCommit, the work makes a file or a checkpoint, and its success means that this is complete.
// An Exception of `progress` that came too late to stop it is then a warning.
struct CallControl {
  ProgressFn progress;
  std::stop_token cancel;
};
enum class Outcome { kValue, kCommit };
void run_long(nanobind::handle progress, const std::function<void(const CallControl&)>& work,
              Outcome outcome = Outcome::kValue);

// The progress of work that goes on after the call: `progress` is called in another thread. Its
// exception ends the work, and is the error of it. Null for None. Call it with Python's lock.
// `saver` is what does the work.
ProgressFn background_progress(nanobind::handle progress, const void* saver);
// Throws failed_precondition in a call of `progress` of this saver: it would wait for itself.
void refuse_in_own_progress(const void* saver);

}  // namespace cairn::python
