// must_end.h -- errors that say nothing about the bytes, so that recovery cannot go on.
#pragma once

#include <cairn/error.h>

namespace cairn::inline v0 {

// Whether somebody else has replaced the files, or the user has asked to stop.
inline bool must_end(const Error& error) {
  return error.code() == Code::kUnavailable || error.code() == Code::kCancelled;
}

}  // namespace cairn::inline v0
