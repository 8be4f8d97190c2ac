// errors.h -- how errors of the library arrive in Python.
#pragma once

#include <cairn/error.h>

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

namespace cairn::python {

// A built-in exception of Python with a message of its own, such as TypeError. It takes context as
// an Error does, and arrives as an exception of the same type.
class BuiltinError : public Error {
 public:
  // `type` is a static type of the interpreter, which is never freed. Other processes of the job
  // see the code.
  BuiltinError(PyObject* type, Code code, std::string message)
      : Error(code, std::move(message)), type_(type) {}

  [[nodiscard]] PyObject* type() const noexcept { return type_; }

 private:
  PyObject* type_;
};

// For the handler of `error`. Throws a BuiltinError for a TypeError, ValueError, RuntimeError or
// NotImplementedError. Rethrows every other exception: also those of subclasses, whose constructors
// may need more than a message.
[[noreturn]] void rethrow(const nanobind::python_error& error);

// Makes cairn.CorruptionError, and lets each cairn::Error arrive as the Python exception of its
// code: ValueError, FileNotFoundError, FileExistsError, RuntimeError, CorruptionError,
// NotImplementedError, IndexError or OSError. An OSError has the `errno` of the system call that
// failed, and is a PermissionError, NotADirectoryError or IsADirectoryError for the errno of such a
// class. The text of the exception is the whole message. A BuiltinError arrives as an exception of
// its type.
void define_errors(nanobind::module_& module);

}  // namespace cairn::python
