// calls.h -- long calls of the library: without Python's lock, with progress and Ctrl-C.
#pragma once

#include <cairn/checkpoint.h>

#include <nanobind/nanobind.h>

#include <functional>

namespace cairn::python {

// Runs `work` without Python's lock, so that other threads of Python go on. `progress` (None, or a
// callable that takes bytes done and bytes in total) is called in this thread about ten times a
// second; an exception that it raises is raised when the work has ended.
//
// Python's signals are handled meanwhile, if this is the main thread. Their exception
// (KeyboardInterrupt) is raised when the work has ended.
void run_long(nanobind::handle progress, const std::function<void(const ProgressFn&)>& work);

}  // namespace cairn::python
