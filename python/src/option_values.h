// option_values.h -- values of options as Python passes them. A value of another type is
// invalid_argument, and the error names the option.
#pragma once

#include <cairn/error.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::python {

template <class T>
T cast_option(const std::string& name, nanobind::handle value, const char* expected) {
  T result;
  if (!nanobind::try_cast(value, result))
    throw Error(Code::kInvalidArgument, name + ": expected " + expected + ", not " +
                                            nanobind::cast<std::string>(nanobind::repr(value)));
  return result;
}
// Whether it is a numpy.bool, which NumPy before 2.0 calls numpy.bool_. The stable ABI of CPython
// has no tp_name.
inline bool is_numpy_bool(nanobind::handle value) {
  const nanobind::handle type = value.type();
  const auto has = [&](const char* attribute, const char* text) {
    return type.attr(attribute).equal(nanobind::str(text));
  };
  return has("__module__", "numpy") && (has("__name__", "bool") || has("__name__", "bool_"));
}
// A NumPy bool counts as a bool, as in check_flag() of the package.
inline bool bool_option(const std::string& name, nanobind::handle value) {
  if (is_numpy_bool(value)) return PyObject_IsTrue(value.ptr()) == 1;
  return cast_option<bool>(name, value, "True or False");
}
inline std::string text_option(const std::string& name, nanobind::handle value) {
  return cast_option<std::string>(name, value, "a str");
}
template <class T>
T number_option(const std::string& name, nanobind::handle value) {
  return cast_option<T>(name, value, "an int that is not negative");
}
template <class Enum>
Enum choice_option(const std::string& name, nanobind::handle value,
                   const std::vector<std::pair<std::string_view, Enum>>& choices) {
  const std::string chosen = text_option(name, value);
  std::string known;
  for (const auto& [word, meaning] : choices) {
    if (word == chosen) return meaning;
    known += (known.empty() ? "'" : ", '") + std::string(word) + "'";
  }
  throw Error(Code::kInvalidArgument, name + ": '" + chosen + "' is not one of " + known);
}

// What sets one option: (the choices, the option's name, its value).
template <class Choices>
using Setters =
    std::map<std::string, std::function<void(Choices&, const std::string&, nanobind::handle)>,
             std::less<>>;

// Sets each option of a dict by the first table that has its name. None stands for the default.
// Throws invalid_argument for a name that no table has.
template <class Choices>
void set_options(nanobind::dict options, std::initializer_list<const Setters<Choices>*> tables,
                 Choices& choices) {
  for (const auto [key, value] : options) {
    const auto name = nanobind::cast<std::string>(key);
    bool known = false;
    for (const Setters<Choices>* table : tables) {
      const auto setter = table->find(name);
      if (setter == table->end()) continue;
      known = true;
      if (!value.is_none()) setter->second(choices, name, value);
      break;
    }
    if (!known) throw Error(Code::kInvalidArgument, "unknown option '" + name + "'");
  }
}

}  // namespace cairn::python
