// json_scan.h -- JSON pulled value by value, without a tree in between: for the metadata of
// checkpoints with very many tensors. As strict and as safe as parse_json: every failure is an
// Error(kDataLoss) with the byte offset.
#pragma once

#include <cairn/error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

// The caller knows what it expects:
//     in.begin_object();
//     while (in.next_member(key)) key == "name" ? in.string(name) : in.skip();
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text);  // borrowed

  // First character of the next value: { [ " t f n, a digit or '-'. Throws if there is none.
  char peek();
  void begin_object();
  // The next member's name, up to its value; false at the end of the object. The name is valid
  // until the next one.
  bool next_member(std::string_view& key);
  void begin_array();
  // Whether an item follows; false at the end of the array.
  bool next_item();

  std::string string();
  void string(std::string& out);  // replaces `out`, keeps its capacity
  bool boolean();
  std::int64_t integer();
  // Whether a null was there (and is now behind).
  bool null();
  // Passes over one value of any kind and returns its text.
  std::string_view skip();
  // Nothing but white space may be left.
  void finish();

  [[nodiscard]] std::size_t offset() const { return at_; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void skip_space();
  void expect(char c, const char* what);
  void word(std::string_view expected);
  void number();
  // The next string: a piece of the text where it has no escapes, else `scratch`.
  std::string_view string_view(std::string& scratch);
  void decode_from(std::size_t start, std::string& out);
  void escape(std::string& out);
  std::uint32_t hex4();

  std::string_view text_;
  std::size_t at_ = 0;
  bool fresh_ = false;   // directly behind a { or [
  std::string scratch_;  // of member names with escapes
};

}  // namespace cairn
