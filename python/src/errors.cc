// errors.cc -- translates cairn::Error.
#include "errors.h"

#include <cairn/error.h>
#include <cairn/inspect.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

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

// The text with everything escaped that is not printable: a message may quote names and bytes of a
// file, and Python prints it to a terminal. Line feeds stay.
std::string printable_lines(std::string_view text) {
  std::string lines;
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += printable_text(text.substr(0, end));
    if (end == text.size()) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

void set_error(PyObject* type, std::string_view text) {
  const std::string lines = printable_lines(text);
  PyObject* message =
      PyUnicode_FromStringAndSize(lines.data(), static_cast<Py_ssize_t>(lines.size()));
  if (message == nullptr) return;  // no memory: that error is set
  PyErr_SetObject(type, message);
  Py_DECREF(message);
}

// The library names the option of the command and that of C++. Python has another one.
std::string with_names_of_python(std::string message) {
  constexpr std::string_view kOptions = "--force (if_exists)";
  const std::size_t at = message.rfind(kOptions);
  if (at != std::string::npos) message.replace(at, kOptions.size(), "overwrite=True");
  return message;
}

void translate(const std::exception_ptr& thrown, void* /*unused*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const BuiltinError& e) {
    set_error(e.type(), e.message());
  } catch (const Error& e) {
    const bool exists = e.code() == Code::kAlreadyExists;
    set_error(exception_of(e.code()),
              exists ? with_names_of_python(std::string(e.message())) : e.message());
  }
}

// The message of an exception; a lone surrogate is escaped.
std::string message_of(nanobind::handle value) {
  const nanobind::str text(value);
  const auto bytes = nanobind::steal<nanobind::bytes>(
      PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  return {bytes.c_str(), bytes.size()};
}

}  // namespace

void rethrow(const nanobind::python_error& error) {
  const std::pair<PyObject*, Code> known[] = {
      {PyExc_TypeError, Code::kInvalidArgument},
      {PyExc_ValueError, Code::kInvalidArgument},
      {PyExc_RuntimeError, Code::kFailedPrecondition},
      {PyExc_NotImplementedError, Code::kUnimplemented},
  };
  for (const auto& [type, code] : known)
    if (error.type().ptr() == type) throw BuiltinError(type, code, message_of(error.value()));
  throw;
}

void define_errors(nanobind::module_& module) {
  corruption_error =
      PyErr_NewExceptionWithDoc("cairn.CorruptionError", kCorruptionDoc, PyExc_OSError, nullptr);
  if (corruption_error == nullptr) throw nanobind::python_error();
  module.attr("CorruptionError") = nanobind::handle(corruption_error);
  nanobind::register_exception_translator(translate, nullptr);
}

}  // namespace cairn::python
