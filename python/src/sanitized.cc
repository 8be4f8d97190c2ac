// sanitized.cc -- what the shared runtime of Clang's sanitizers lacks.
//
// A module of Python must use the shared runtime, which has no check of vptr. The library's objects
// call it, because the unit tests have the static runtime. Here its call does nothing.
#include <cstdint>

#if defined(__clang__) && defined(__has_feature)
#if __has_feature(address_sanitizer)

extern "C" {
extern std::uintptr_t __ubsan_vptr_type_cache[128];  // NOLINT: the name that the compiler knows
std::uintptr_t __ubsan_vptr_type_cache[128] = {};    // NOLINT
// NOLINTNEXTLINE
void __ubsan_handle_dynamic_type_cache_miss_abort(void* /*data*/, std::uintptr_t /*pointer*/,
                                                  std::uintptr_t /*hash*/) {}
}

#endif
#endif
