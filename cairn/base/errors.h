// errors.h -- shorthands for the Errors that parsers and checks throw most often.
#pragma once

#include <cairn/error.h>

#include <string>
#include <utility>

namespace cairn::inline v0 {

// Throws data_loss: stored bytes are damaged.
[[noreturn]] inline void data_loss(std::string message) {
  throw Error(Code::kDataLoss, std::move(message));
}

// Throws invalid_argument: the caller's request is invalid.
[[noreturn]] inline void invalid_argument(std::string message) {
  throw Error(Code::kInvalidArgument, std::move(message));
}

}  // namespace cairn::inline v0
