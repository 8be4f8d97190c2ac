// matchers.h -- matchers for the error that a call ends with. By design, none matches "some error".
//   EXPECT_THAT([&] { decode(bytes); }, FailsWith(Code::kDataLoss, "crc32c"));
#pragma once

#include <cairn/error.h>
#include <gmock/gmock.h>

#include <exception>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

inline void PrintTo(Code code, std::ostream* out) { *out << code_name(code); }

namespace testing {

// Returns the error that a call ends with, for tests that check more of it than the matchers do.
template <class F>
Error error_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return {Code::kIo, "no error"};
}

// Matches a callable that throws an Error with this code whose message contains `text`.
MATCHER_P2(FailsWith, code, text,
           "ends with " + std::string(code_name(code)) + " containing \"" + std::string(text) +
               "\"") {
  try {
    arg();
  } catch (const Error& e) {
    *result_listener << "it ended with " << code_name(e.code()) << ": " << e.message();
    return e.code() == code && e.message().find(text) != std::string::npos;
  } catch (const std::exception& e) {
    *result_listener << "it ended with another exception: " << e.what();
    return false;
  }
  *result_listener << "it did not fail";
  return false;
}

// Matches a callable that throws an Error with this code.
MATCHER_P(FailsWith, code, "ends with " + std::string(code_name(code))) {
  return ::testing::ExplainMatchResult(FailsWith(code, ""), arg, result_listener);
}

}  // namespace testing
}  // namespace cairn
