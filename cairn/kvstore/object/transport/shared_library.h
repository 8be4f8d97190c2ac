// shared_library.h -- SharedLibrary, a library of the system that is loaded when it is first
// needed. Programs that use no URL then need neither libcurl nor OpenSSL.
#pragma once

#include <span>
#include <string>

namespace cairn::inline v0::object {

// Stays loaded until the process ends, because libraries leave threads and handlers behind.
class SharedLibrary {
 public:
  // Loads the first of `names` that can be loaded. Throws unimplemented if none can: "needs
  // `needed`: ", and what the loader says about the first name.
  SharedLibrary(std::span<const char* const> names, const std::string& needed);

  // The address of a function, which converts to the pointer that it initialises.
  struct Symbol {
    void* address = nullptr;
    template <class Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
  };
  // Throws unimplemented if the library has no function of that name.
  [[nodiscard]] Symbol function(const char* name) const;
  [[nodiscard]] bool has(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string needed_;
};

}  // namespace cairn::inline v0::object
