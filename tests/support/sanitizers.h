// sanitizers.h -- whether a test was compiled with a sanitizer, under either compiler, and what
// such a test leaves to the plain build.
#pragma once

namespace cairn::testing {

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Tests that kill a process at every system call in turn advance by this many calls. The plain
// build takes every call. Under a sanitizer, which sees nothing of a killed process, they take
// every seventh.
inline constexpr int kKillStep = kSanitized ? 7 : 1;

// Tests of very many things have so many times fewer of them under a sanitizer: what they look for
// is time and numbers that overflow.
inline constexpr int kFewer = kSanitized ? 10 : 1;

}  // namespace cairn::testing
