// error.cc -- names of the error codes.
#include <cairn/error.h>

namespace cairn::inline v0 {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kAlreadyExists:
      return "already_exists";
    case Code::kFailedPrecondition:
      return "failed_precondition";
    case Code::kDataLoss:
      return "data_loss";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kOutOfRange:
      return "out_of_range";
    case Code::kIo:
      return "io";
    case Code::kCancelled:
      return "cancelled";
    case Code::kDeadlineExceeded:
      return "deadline_exceeded";
  }
  return "unknown";
}

}  // namespace cairn::inline v0
