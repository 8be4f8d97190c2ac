// shared_library.cc -- loads with dlopen. The static program has cli/static/shared_library.cc in
// its place, so nothing else belongs here.
#include <cairn/kvstore/object/transport/shared_library.h>

#include <cairn/error.h>

#include <dlfcn.h>

namespace cairn::inline v0::object {
namespace {

// The program may have loaded another library with the same names: TensorFlow exports BoringSSL's
// to all. RTLD_LOCAL keeps these names from the program; RTLD_DEEPBIND keeps the program's from
// this library and those that it needs. Sanitizers do not allow the second.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if !defined(RTLD_DEEPBIND) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int kHowToLoad = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kHowToLoad = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

}  // namespace

SharedLibrary::SharedLibrary(std::span<const char* const> names, const std::string& needed)
    : needed_(needed) {
  std::string why;
  for (const char* name : names) {
    handle_ = ::dlopen(name, kHowToLoad);
    if (handle_ != nullptr) return;
    if (why.empty()) why = ::dlerror();
  }
  throw Error(Code::kUnimplemented, "needs " + needed_ + ": " + why);
}

SharedLibrary::Symbol SharedLibrary::function(const char* name) const {
  void* const address = ::dlsym(handle_, name);
  if (address == nullptr)
    throw Error(Code::kUnimplemented, "needs " + needed_ + ": it has no function " + name);
  return {address};
}

bool SharedLibrary::has(const char* name) const { return ::dlsym(handle_, name) != nullptr; }

}  // namespace cairn::inline v0::object
