// error.h -- Error, the exception type of Cairn: a code, a message and the context in which the
// error occurred.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Category of an error.
enum class Code {
  kInvalidArgument,  // the call or its arguments make no sense
  kNotFound,         // a file, key, parameter or version is missing
  kAlreadyExists,    // the target exists and may not be overwritten
  // The object is in a state that does not allow the operation (uncommitted, mismatching config).
  kFailedPrecondition,
  kDataLoss,          // stored bytes are damaged: wrong checksum, structure or length
  kUnimplemented,     // a legal input that Cairn does not handle; the message names it
  kUnavailable,       // the operation may succeed when it is tried again
  kOutOfRange,        // an offset, index or box outside the value that it addresses
  kIo,                // the operating system refused; the message has its reason
  kCancelled,         // the caller asked to stop
  kDeadlineExceeded,  // the operation took longer than the caller allows
};

// The snake_case name of a code: "data_loss".
std::string_view code_name(Code code);

// An error and its context. what() starts with the outermost context: "params.dense.kernel: chunk
// 0.3: zstd frame is truncated".
class Error : public std::exception {
 public:
  // `error_number` is the errno of a system call that failed.
  Error(Code code, std::string message, int error_number = 0)
      : code_(code), error_number_(error_number), text_(std::move(message)) {}

  [[nodiscard]] Code code() const noexcept { return code_; }
  // The errno of the system call that failed, such as ENOSPC; 0 if the error has another cause.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }
  // message with context
  [[nodiscard]] const std::string& message() const noexcept { return text_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

  // Prepends `where`, unless the message already begins with it. Each layer that the error passes
  // calls it on the way up.
  void add_context(std::string_view where) {
    const std::string_view text = text_;
    if (text.starts_with(where) && text.substr(where.size()).starts_with(": ")) return;
    text_.insert(0, ": ");
    text_.insert(0, where);
  }

 private:
  Code code_;
  int error_number_;
  std::string text_;
};

// Runs f and returns its result. If f throws an Error, prepends the text that `where` returns and
// rethrows. `where` is called only on failure.
template <class Where, class F>
decltype(auto) with_context(Where&& where, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (Error& e) {
    e.add_context(std::forward<Where>(where)());
    throw;
  }
}

// A value or an Error, for operations where failure is an ordinary answer.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  // The error; only valid if ok() is false.
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }
  // The value. Throws the Error if there is no value.
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

// Runs f and returns Result<decltype(f())>: its value, or the Error that it threw.
template <class F>
auto try_call(F&& f) -> Result<decltype(std::forward<F>(f)())> {
  try {
    return std::forward<F>(f)();
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace cairn::inline v0
#pragma GCC visibility pop
