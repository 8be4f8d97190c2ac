// errors.cc -- translates cairn::Error.
#include "errors.h"

#include <cairn/error.h>

#include <exception>
#include <string_view>

namespace cairn::python {
namespace {

constexpr const char* kCorruptionDoc =
    "Stored bytes are damaged: a checksum, a structure or a length is wrong. The message names "
    "the\n"
    "tensor, the file and the place.";

PyObject* corruption_error = nullptr;  // belongs to the module, which is never unloaded

PyObject* exception_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return PyExc_ValueError;
    case Code::kNotFound:
      return PyExc_FileNotFoundError;
    case Code::kAlreadyExists:
      return PyExc_FileExistsError;
    case Code::kFailedPrecondition:
    case Code::kCancelled:
      return PyExc_RuntimeError;
    case Code::kDataLoss:
      return corruption_error;
    case Code::kUnimplemented:
      return PyExc_NotImplementedError;
    case Code::kDeadlineExceeded:
      return PyExc_TimeoutError;
    case Code::kOutOfRange:
      return PyExc_IndexError;
    case Code::kUnavailable:
    case Code::kIo:
      break;
  }
  return PyExc_OSError;
}

void translate(const std::exception_ptr& thrown, void* /*unused*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& e) {
    // A message may quote bytes of a file that are not UTF-8.
    const std::string_view text = e.message();
    PyObject* message =
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
    if (message == nullptr) return;  // no memory: that error is set
    PyErr_SetObject(exception_of(e.code()), message);
    Py_DECREF(message);
  }
}

}  // namespace

void define_errors(nanobind::module_& module) {
  corruption_error =
      PyErr_NewExceptionWithDoc("cairn.CorruptionError", kCorruptionDoc, PyExc_OSError, nullptr);
  if (corruption_error == nullptr) throw nanobind::python_error();
  module.attr("CorruptionError") = nanobind::handle(corruption_error);
  nanobind::register_exception_translator(translate, nullptr);
}

}  // namespace cairn::python
