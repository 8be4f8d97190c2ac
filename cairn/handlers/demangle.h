// demangle.h -- names of C++ types, for messages.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <typeindex>

namespace cairn::inline v0 {

// The name of a type as C++ writes it: "my::Leaf".
inline std::string demangled_name(std::type_index type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return name != nullptr ? name.get() : type.name();
}

}  // namespace cairn::inline v0
