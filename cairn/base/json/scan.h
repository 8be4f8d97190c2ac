// scan.h -- a JSON pull parser that reads value by value without building a tree, for the
// metadata of checkpoints with very many tensors. It is as strict and as safe as parse_json, also
// about a byte-order mark: every failure is an Error(kDataLoss) with the byte offset.
#pragma once

#include <cairn/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Reads the values of one text in order. The caller states which type it expects:
//     in.begin_object();
//     while (in.next_member(key)) key == "name" ? in.string(name) : in.skip();
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text);  // borrowed

  // Returns the first character of the next value without consuming it: { [ " t f n, a digit or
  // '-'. Throws if there is no value.
  char peek();
  // Consumes the '{' of an object.
  void begin_object();
  // Reads the name of the next member, up to its value. Returns false at the end of the object.
  // `key` is valid until the next call.
  bool next_member(std::string_view& key);
  // Consumes the '[' of an array.
  void begin_array();
  // Returns true if an item follows and false at the end of the array.
  bool next_item();

  // The following functions consume one value of the given type and throw if the next value has
  // another type. integer() reads an int64.
  std::string string();
  void string(std::string& out);  // replaces the content of `out` and keeps its capacity
  bool boolean();
  std::int64_t integer();
  // Consumes a null if it is next. Returns whether it was.
  bool null();
  // Skips one value of any kind and returns its text. The text of a string has the quotes and the
  // escapes.
  std::string_view skip();
  // Throws unless only white space is left.
  void finish();

  // For text of a known form, which is read faster than value by value. Where it has another form,
  // the caller returns to an offset() where it began, between two values, and reads the values.
  // Consumes `text` if it is next, without white space before it.
  bool accept(std::string_view text);
  // Consumes a string without escapes, of ASCII characters, if it is next.
  std::optional<std::string_view> plain_string();
  void return_to(std::size_t offset) { at_ = offset; }

  [[nodiscard]] std::size_t offset() const { return at_; }
  [[nodiscard]] std::size_t remaining() const { return text_.size() - at_; }  // bytes
  // Throws data_loss with `what` and the current byte offset.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void skip_space();
  void expect(char c, const char* what);
  void word(std::string_view expected);
  void number();
  // Returns the next string: a view of the text if the string has no escapes, otherwise `scratch`.
  std::string_view string_view(std::string& scratch);
  // Consumes the rest of a string from its first character that is not plain. Passes the decoded
  // characters to `out` in pieces.
  template <class Out>
  void decode_from(std::size_t start, Out out);
  // Consumes a string without decoding it. Accepts what string() accepts.
  void skip_string();
  void to_special();
  std::uint32_t escape();
  std::uint32_t hex4();

  std::string_view text_;
  std::size_t at_ = 0;
  bool fresh_ = false;   // directly after a { or [
  std::string scratch_;  // holds member names that contain escapes
};

}  // namespace cairn::inline v0
