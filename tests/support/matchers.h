// matchers.h -- matchers for the error that a call ends with. By design, none matches "some error".
//   EXPECT_THAT([&] { decode(bytes); }, FailsWith(Code::kDataLoss, "crc32c"));
#pragma once

#include <cairn/error.h>
#include <gmock/gmock.h>

#include <exception>
#include <ostream>
#include <sstream>
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

// What a call is to end with: an Error with a code, whose message contains a text.
class Failure {
 public:
  using is_gtest_matcher = void;

  Failure(Code code, std::string text) : code_(code), text_(std::move(text)) {}

  template <class F>
  bool MatchAndExplain(const F& call, ::testing::MatchResultListener* listener) const {
    return is_how_it_ends([](const void* given) { (*static_cast<const F*>(given))(); }, &call,
                          listener->stream());
  }
  void DescribeTo(std::ostream* out) const {
    *out << "ends with " << code_name(code_);
    if (!text_.empty()) {
      *out << " containing \"" << text_ << "\"";
    }
  }
  void DescribeNegationTo(std::ostream* out) const {
    *out << "not (";
    DescribeTo(out);
    *out << ")";
  }

  bool is_how_it_ends(void (*call)(const void*), const void* given, std::ostream* why) const {
    std::ostringstream ignored;
    std::ostream& out = why != nullptr ? *why : ignored;
    try {
      call(given);
    } catch (const Error& e) {
      out << "it ended with " << code_name(e.code()) << ": " << e.message();
      return e.code() == code_ && e.message().find(text_) != std::string::npos;
    } catch (const std::exception& e) {
      out << "it ended with another exception: " << e.what();
      return false;
    }
    out << "it did not fail";
    return false;
  }

 private:
  Code code_;
  std::string text_;
};

// Matches a callable that throws an Error with this code whose message contains `text`.
inline Failure FailsWith(Code code, std::string_view text = {}) {
  return {code, std::string(text)};
}

}  // namespace testing
}  // namespace cairn

// Each EXPECT_THAT has a callable of a type of its own, and gMock would make a hundred functions
// for that type: they were a third of what the tests compiled to.
namespace testing::internal {

class FailureFormatter {
 public:
  explicit FailureFormatter(cairn::testing::Failure failure) : failure_(std::move(failure)) {}

  template <class F>
  AssertionResult operator()(const char* text, const F& call) const {
    return compare(
        text, [](const void* given) { (*static_cast<const F*>(given))(); }, &call);
  }

 private:
  AssertionResult compare(const char* text, void (*call)(const void*), const void* given) const {
    std::ostringstream why;
    if (failure_.is_how_it_ends(call, given, &why)) {
      return AssertionSuccess();
    }
    std::ostringstream expected;
    failure_.DescribeTo(&expected);
    return AssertionFailure() << "Value of: " << text << "\nExpected: " << expected.str()
                              << "\n  Actual: " << why.str();
  }

  cairn::testing::Failure failure_;
};

inline FailureFormatter MakePredicateFormatterFromMatcher(cairn::testing::Failure failure) {
  return FailureFormatter(std::move(failure));
}

}  // namespace testing::internal
