// npy_fields.cc -- parses the Python literal by recursive descent.
#include <cairn/formats/npz/npy_fields.h>

#include <algorithm>
#include <cstddef>

namespace cairn::inline v0 {
namespace {

constexpr int kMaxFieldDepth = 32;  // fields in fields

class FieldParser {
 public:
  FieldParser(std::string_view text, const std::function<bool(std::string_view)>& is_type)
      : text_(text), is_type_(is_type) {}

  bool run() {
    const bool valid = descr(0);
    skip_spaces();
    return valid && at_ == text_.size();
  }

 private:
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool string(std::string_view& content) {
    skip_spaces();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return false;
    content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content.find('\\') == std::string_view::npos;
  }
  bool integer() {
    skip_spaces();
    const std::size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    const bool valid = end > at_ && (end == at_ + 1 || text_[at_] != '0');
    at_ = end;
    return valid;
  }
  // 3, (3,) or (3, 4): a number in parentheses is a number, too.
  bool shape() {
    if (!accept('(')) return integer();
    while (!accept(')')) {
      if (!integer()) return false;
      if (accept(',')) continue;
      return accept(')');
    }
    return true;
  }
  // A name, or a title and a name.
  bool name() {
    std::string_view text;
    if (!accept('(')) return string(text);
    if (!string(text) || !accept(',') || !string(text)) return false;
    accept(',');
    return accept(')');
  }
  bool field(int depth) {
    if (!accept('(') || !name() || !accept(',') || !descr(depth + 1)) return false;
    if (accept(',')) {
      if (accept(')')) return true;
      if (!shape()) return false;
      accept(',');
    }
    return accept(')');
  }
  bool descr(int depth) {
    if (depth > kMaxFieldDepth) return false;
    if (accept('(')) {  // a type and a shape
      if (!descr(depth + 1) || !accept(',') || !shape()) return false;
      accept(',');
      return accept(')');
    }
    if (!accept('[')) {
      std::string_view type;
      return string(type) && is_type_(type);
    }
    while (!accept(']')) {
      if (!field(depth)) return false;
      if (accept(',')) continue;
      return accept(']');
    }
    return true;
  }

  std::string_view text_;
  const std::function<bool(std::string_view)>& is_type_;
  std::size_t at_ = 0;
};

}  // namespace

bool is_field_list(std::string_view descr, const std::function<bool(std::string_view)>& is_type) {
  return FieldParser(descr, is_type).run();
}

}  // namespace cairn::inline v0
