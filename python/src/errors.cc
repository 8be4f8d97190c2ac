// errors.cc -- translates cairn::Error.
#include "errors.h"

#include <cairn/error.h>
#include <cairn/inspect.h>

#include <algorithm>
#include <cerrno>
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

// The subclass of OSError for an errno, as Python's own functions raise it.
PyObject* os_error(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
      return PyExc_PermissionError;
    case ENOTDIR:
      return PyExc_NotADirectoryError;
    case EISDIR:
      return PyExc_IsADirectoryError;
    default:
      return PyExc_OSError;
  }
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

// Sets Python's exception: this one, or the one that Python raises while it makes it.
void set_error(PyObject* type, std::string_view text, int error_number = 0) {
  try {
    const std::string lines = printable_lines(text);
    const nanobind::object error =
        nanobind::handle(type)(nanobind::str(lines.data(), lines.size()));
    // With an errno and a reason as arguments, the text would be "[Errno 28] REASON".
    if (error_number != 0 && nanobind::hasattr(error, "errno")) error.attr("errno") = error_number;
    PyErr_SetObject(type, error.ptr());
  } catch (nanobind::python_error& e) {
    e.restore();
  }
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
    PyObject* const type = exception_of(e.code());
    const bool exists = e.code() == Code::kAlreadyExists;
    set_error(type == PyExc_OSError ? os_error(e.error_number()) : type,
              exists ? with_names_of_python(std::string(e.message())) : e.message(),
              e.error_number());
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
