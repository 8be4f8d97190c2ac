// gil.h -- gives Python's global lock (the GIL) back, and takes it again.
//
// When the interpreter ends, Python before 3.14 ends every other thread that asks for the lock,
// with pthread_exit. That unwinds the thread's stack. It would meet C++ that must not be left in
// this way, and the process would abort: its exit status, and what Python had not yet written to
// files, would be lost. Such a thread waits here instead until the process has ended.
#pragma once

#include <nanobind/nanobind.h>

#include <cxxabi.h>
#include <unistd.h>

namespace cairn::python {

// Calls `f`, which may ask for the lock or run code of Python. It must hold no objects that have
// destructors: these would run without the lock.
template <class F>
auto until_the_end(F f) {
  try {
    return f();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();  // an end of this block would be the end of the process
  }
}

// Calls a function of Python with these objects. Throws python_error.
template <class... Args>
nanobind::object call_python(nanobind::handle function, const Args&... args) {
  PyObject* result = until_the_end(
      [&] { return PyObject_CallFunctionObjArgs(function.ptr(), args.ptr()..., nullptr); });
  if (result == nullptr) throw nanobind::python_error();
  return nanobind::steal(result);
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
