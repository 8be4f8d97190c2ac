// text.h -- names and paths, which may hold bytes that are not UTF-8. Python writes such bytes as
// lone surrogates ("surrogateescape").
#pragma once

#include <cairn/error.h>

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::python {

// A str of Python.
inline nanobind::object to_str(std::string_view text) {
  return nanobind::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

// An argument that is a path: a str, bytes, or an object of os.PathLike.
struct PathText {
  std::string text;  // as given; the functions of the library that read take a URL of a store, too

  // The path without file://, or another URL as it is.
  [[nodiscard]] std::string place() const {
    constexpr std::string_view kFile = "file://";
    return text.starts_with(kFile) ? text.substr(kFile.size()) : text;
  }
  // The path without file://, for what reads or writes local files only. Throws unimplemented for
  // another scheme, because "gs:" would become a directory.
  [[nodiscard]] std::string local() const {
    constexpr std::string_view kFile = "file://";
    if (text.starts_with(kFile)) return text.substr(kFile.size());
    const std::size_t scheme = text.find("://");
    if (scheme != std::string::npos && text.find('/') > scheme)
      throw Error(Code::kUnimplemented,
                  text +
                      ": a local path is needed here, not a URL; cairn.open, load, verify, diff, "
                      "stats and du read URLs (s3://, gs://, hf://, http://, https://)");
    return text;
  }
};
// An argument that is a name from a checkpoint.
struct NameText {
  std::string text;
};

}  // namespace cairn::python

namespace nanobind::detail {

template <>
struct type_caster<cairn::python::PathText> {
  NB_TYPE_CASTER(cairn::python::PathText, const_name("str | bytes | os.PathLike[str]"))
  bool from_python(handle source, std::uint32_t /*flags*/, cleanup_list* /*cleanup*/) noexcept {
    // Not PyUnicode_FSConverter: a NUL stays, so that the library refuses it and shows the path.
    const object path = steal(PyOS_FSPath(source.ptr()));
    const object bytes = path.is_valid() && PyUnicode_Check(path.ptr())
                             ? steal(PyUnicode_EncodeFSDefault(path.ptr()))
                             : path;
    if (!bytes.is_valid()) {
      PyErr_Clear();
      return false;
    }
    value.text.assign(PyBytes_AsString(bytes.ptr()),
                      static_cast<std::size_t>(PyBytes_Size(bytes.ptr())));
    return true;
  }
};

template <>
struct type_caster<cairn::python::NameText> {
  NB_TYPE_CASTER(cairn::python::NameText, const_name("str"))
  bool from_python(handle source, std::uint32_t /*flags*/, cleanup_list* /*cleanup*/) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    PyObject* bytes = PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape");
    if (bytes == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.text.assign(PyBytes_AsString(bytes), static_cast<std::size_t>(PyBytes_Size(bytes)));
    Py_DECREF(bytes);
    return true;
  }
};

}  // namespace nanobind::detail
