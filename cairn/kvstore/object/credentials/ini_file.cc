// ini_file.cc -- parses line by line. Memory and time are linear in the size of the text.
#include <cairn/kvstore/object/credentials/ini_file.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/base/utf8.h>

#include <algorithm>

namespace cairn::inline v0::object {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

class IniParser {
 public:
  IniFile parse(std::string_view text) {
    for (const std::string_view line : split(without_byte_order_mark(text), '\n')) {
      ++line_;
      take(line);
    }
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    invalid_argument("line " + std::to_string(line_) + ": " + what);
  }

  void take(std::string_view line) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') return;
    const bool is_visible = std::none_of(text.begin(), text.end(), [](char c) {
      return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == '\x7f';
    });
    if (!is_visible || !valid_utf8(text)) fail("it holds characters that are not text");
    if (line.front() == ' ' || line.front() == '\t')
      take_nested(text);
    else if (text.front() == '[')
      take_section(text);
    else
      take_value(text);
  }

  void take_section(std::string_view text) {
    if (text.back() != ']' || text.size() < 3) fail("a section is [name]");
    section_ = &file_[std::string(trimmed(text.substr(1, text.size() - 2)))];
    parent_.clear();
  }

  // Behind a value that is not empty, an indented line is more of that value, which is of no use
  // here.
  void take_nested(std::string_view text) {
    if (section_ == nullptr || parent_.empty()) fail("an indented line follows no value");
    if (!(*section_)[parent_].empty()) return;
    const auto [name, value] = name_and_value(text);
    (*section_)[parent_ + "." + name] = value;
  }

  void take_value(std::string_view text) {
    if (section_ == nullptr) fail("it stands before the first [section]");
    const auto [name, value] = name_and_value(text);
    (*section_)[name] = value;
    parent_ = name;
  }

  [[nodiscard]] std::pair<std::string, std::string> name_and_value(std::string_view text) const {
    const std::size_t equals = text.find('=');
    const std::string_view name = trimmed(text.substr(0, equals));
    if (equals == std::string_view::npos || name.empty())
      fail("expected [section] or name = value");
    return {std::string(name), std::string(trimmed(text.substr(equals + 1)))};
  }

  IniFile file_;
  IniSection* section_ = nullptr;
  std::string parent_;  // the value that indented lines belong to
  std::size_t line_ = 0;
};

// Splits a command line.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::string>> read() {
    for (; at_ < text_.size(); ++at_)
      if (!take(text_[at_])) return std::nullopt;
    if (quote_ != '\0') return std::nullopt;
    end_word();
    return std::move(words_);
  }

 private:
  bool take(char c) {
    if (c == '\\' && quote_ != '\'') {
      if (++at_ == text_.size()) return false;
      return add(text_[at_]);
    }
    if (quote_ != '\0') {
      if (c != quote_) return add(c);
      quote_ = '\0';
      return true;
    }
    if (c == '"' || c == '\'') {
      quote_ = c;
      in_word_ = true;  // "" is a word
      return true;
    }
    if (c != ' ' && c != '\t') return add(c);
    end_word();
    return true;
  }

  bool add(char c) {
    word_ += c;
    in_word_ = true;
    return true;
  }

  void end_word() {
    if (in_word_) words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  char quote_ = '\0';
  bool in_word_ = false;
  std::string word_;
  std::vector<std::string> words_;
};

}  // namespace

IniFile parse_ini(std::string_view text) { return IniParser().parse(text); }

std::optional<std::string> ini_value(const IniFile& file, std::string_view section,
                                     std::string_view name) {
  const auto values = file.find(section);
  if (values == file.end()) return std::nullopt;
  const auto value = values->second.find(name);
  if (value == values->second.end() || value->second.empty()) return std::nullopt;
  return value->second;
}

std::optional<std::vector<std::string>> words_of_command(std::string_view text) {
  return WordReader(text).read();
}

}  // namespace cairn::inline v0::object
