// shared_library.cc -- a static program has no loader, so it cannot reach URLs.
#include <cairn/kvstore/object/transport/shared_library.h>

#include <cairn/error.h>

namespace cairn::inline v0::object {

SharedLibrary::SharedLibrary(std::span<const char* const> /*names*/, const std::string& needed)
    : needed_(needed) {
  throw Error(
      Code::kUnimplemented,
      "needs " + needed_ +
          ", which a static program cannot load; use the command that is linked dynamically");
}

SharedLibrary::Symbol SharedLibrary::function(const char* /*name*/) const { return {handle_}; }

bool SharedLibrary::has(const char* /*name*/) const { return handle_ != nullptr; }

}  // namespace cairn::inline v0::object
