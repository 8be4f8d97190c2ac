// gil.h -- gives Python's global lock (the GIL) back, and takes it again.
//
// When the interpreter ends, Python before 3.14 ends every other thread that asks for the lock, with
// pthread_exit. That unwinds the thread's stack. It would meet C++ that must not be left in this
// way, and the process would abort: its exit status, and what Python had not yet written to files,
// would be lost. Such a thread waits here instead until the process has ended.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace cairn::python {

// Calls `f`, which may ask for the lock or run code of Python.
template <class F>
auto until_the_end(F f) {
  try {
    return f();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();  // an end of this block would be the end of the process
  }
}

// Without the lock.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    until_the_end([&] { PyEval_RestoreThread(thread_); });
  }

 private:
  PyThreadState* thread_;
};

// With the lock, in any thread.
class WithGil {
 public:
  WithGil() : state_(until_the_end([] { return PyGILState_Ensure(); })) {}
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace cairn::python
