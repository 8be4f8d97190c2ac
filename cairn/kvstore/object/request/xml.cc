// xml.cc -- a parser of small XML documents.
#include <cairn/kvstore/object/request/xml.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace cairn::inline v0::object {
namespace {

constexpr std::string_view kXmlSpace = " \t\r\n";

class XmlParser {
 public:
  XmlParser(std::string_view text, const XmlLimits& limits) : text_(text), limits_(limits) {}

  XmlElement document() {
    if (text_.size() > limits_.max_bytes) fail("it is too long");
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    skip_between();
    XmlElement root = element(1);
    skip_between();
    if (at_ != text_.size()) fail("text behind the root element");
    return root;
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    data_loss("XML: " + std::string(why) + " at byte " + std::to_string(at_));
  }
  [[nodiscard]] bool sees(std::string_view what) const {
    return text_.substr(at_).starts_with(what);
  }
  void expect(std::string_view what) {
    if (!sees(what)) fail("\"" + std::string(what) + "\" is missing");
    at_ += what.size();
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(kXmlSpace, at_), text_.size()); }
  void skip_to_end_of(std::string_view mark) {
    const std::size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) fail("\"" + std::string(mark) + "\" is missing");
    at_ = end + mark.size();
  }
  // Skips a comment or a processing instruction, of which <?xml ...?> is one.
  bool skip_remark() {
    if (sees("<!--"))
      skip_to_end_of("-->");
    else if (sees("<?"))
      skip_to_end_of("?>");
    else
      return false;
    return true;
  }
  void skip_between() {
    do skip_space();
    while (skip_remark());
  }

  std::string name() {
    const std::size_t end = std::min(text_.find_first_of(" \t\r\n/>=<&\"'", at_), text_.size());
    std::string_view found = text_.substr(at_, end - at_);
    if (found.empty() || found.front() == '!') fail("a name is missing");
    at_ = end;
    return std::string(found.substr(found.rfind(':') + 1));
  }
  // Returns true if the tag closes its element, too: <a/>.
  bool end_of_start_tag() {
    for (;;) {
      skip_space();
      if (sees(">") || sees("/>")) break;
      (void)name();
      skip_space();
      expect("=");
      skip_space();
      if (!sees("\"") && !sees("'")) fail("an attribute without quotes");
      const std::string_view quote = text_.substr(at_, 1);
      ++at_;
      skip_to_end_of(quote);
    }
    const bool closes = sees("/");
    expect(closes ? "/>" : ">");
    return closes;
  }

  XmlElement element(std::size_t depth) {
    if (depth > limits_.max_depth) fail("it is nested too deeply");
    if (++elements_ > limits_.max_elements) fail("it has too many elements");
    expect("<");
    XmlElement result;
    result.name = name();
    if (!end_of_start_tag()) content(result, depth);
    return result;
  }
  void content(XmlElement& parent, std::size_t depth) {
    for (;;) {
      if (at_ == text_.size()) fail("the end of <" + parent.name + "> is missing");
      if (text_[at_] != '<')
        characters(parent.text);
      else if (sees("</"))
        break;
      else if (!skip_remark())
        parent.children.push_back(element(depth + 1));
    }
    at_ += 2;
    if (name() != parent.name) fail("another element ends than <" + parent.name + ">");
    skip_space();
    expect(">");
  }

  void characters(std::string& out) {
    const std::size_t end = std::min(text_.find_first_of("<&", at_), text_.size());
    out += text_.substr(at_, end - at_);
    at_ = end;
    if (sees("&")) entity(out);
  }
  void entity(std::string& out) {
    constexpr std::size_t kLongest = 10;  // "&#1114111;"
    const std::size_t end = text_.substr(at_, kLongest).find(';');
    if (end == std::string_view::npos) fail("an entity without an end");
    const std::string_view entity = text_.substr(at_ + 1, end - 1);
    constexpr std::pair<std::string_view, char> kNamed[] = {
        {"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    const auto* known = std::find_if(std::begin(kNamed), std::end(kNamed),
                                     [&](const auto& each) { return each.first == entity; });
    if (known != std::end(kNamed))
      out += known->second;
    else
      append_utf8(out, numbered(entity));
    at_ += end + 1;
  }
  // The character of "#65" or "#x41".
  [[nodiscard]] std::uint32_t numbered(std::string_view entity) const {
    if (!entity.starts_with('#')) fail("an unknown entity");
    const bool is_hex = entity.starts_with("#x");
    entity.remove_prefix(is_hex ? 2 : 1);
    std::uint32_t code = 0;
    for (const char c : entity) {
      const auto digit = std::string_view("0123456789abcdef")
                             .find(static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c));
      if (digit >= (is_hex ? 16U : 10U)) fail("an entity that is not a number");
      code = code * (is_hex ? 16 : 10) + static_cast<std::uint32_t>(digit);  // at most 8 digits
    }
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    if (code == 0 || code > 0x10ffff || is_surrogate) fail("an entity that is not a character");
    return code;
  }

  std::string_view text_;
  XmlLimits limits_;
  std::size_t at_ = 0;
  std::size_t elements_ = 0;
};

}  // namespace

const XmlElement* XmlElement::find(std::string_view child) const {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const XmlElement& each) { return each.name == child; });
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::text_of(std::string_view child) const {
  const XmlElement* found = find(child);
  return found == nullptr ? std::string_view() : found->text;
}

XmlElement parse_xml(std::string_view text, const XmlLimits& limits) {
  return XmlParser(text, limits).document();
}

}  // namespace cairn::inline v0::object
