// error.h -- the one error of Cairn: a code, a message, and the chain of where it happened.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace cairn {

enum class Code {
  kInvalidArgument,  // the caller asked for something that makes no sense
  kNotFound,         // a file, key, parameter or version is not there
  kAlreadyExists,    // the target is there and may not be overwritten
  // the thing is in a state in which this cannot be done (uncommitted, mismatching config)
  kFailedPrecondition,
  kDataLoss,       // stored bytes are damaged: checksum, structure or length is wrong
  kUnimplemented,  // a legal input that Cairn does not handle; the message names it
  kUnavailable,    // may work when tried again
  kOutOfRange,     // an offset, index or box outside the value it addresses
  kIo,             // the operating system said no; the message carries its words
};

// The snake_case name of a code: "data_loss".
std::string_view code_name(Code code);

// An error and where it happened. what() reads outermost first: "params.dense.kernel: chunk 0.3:
// zstd frame is truncated".
class Error : public std::exception {
 public:
  Error(Code code, std::string message) : code_(code), text_(std::move(message)) {}

  [[nodiscard]] Code code() const noexcept { return code_; }
  [[nodiscard]] const std::string& message() const noexcept { return text_; }  // with its context
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

  // Puts `where` in front: called by each layer that the error passes on its way up.
  void add_context(std::string_view where) {
    text_.insert(0, ": ");
    text_.insert(0, where);
  }

 private:
  Code code_;
  std::string text_;
};

// Runs f; an Error passing through learns where it was. `where` is a callable returning text, run
// only on failure.
template <class Where, class F>
decltype(auto) with_context(Where&& where, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (Error& e) {
    e.add_context(std::forward<Where>(where)());
    throw;
  }
}

// A value or the Error that stood in its way, for places where failure is an ordinary answer.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }
  // The value; throws the Error if there is none.
  [[nodiscard]] const T& value() const& {
    if (!ok()) throw std::get<1>(state_);
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    if (!ok()) throw std::get<1>(state_);
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

// Runs f and catches an Error: Result<decltype(f())>.
template <class F>
auto try_call(F&& f) -> Result<decltype(std::forward<F>(f)())> {
  try {
    return std::forward<F>(f)();
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace cairn
