// scan.cc -- implements the JSON pull parser.
#include <cairn/base/json/scan.h>

#include <cairn/base/byte_order.h>
#include <cairn/base/git_lfs.h>
#include <cairn/base/json/json.h>
#include <cairn/base/utf8.h>

#include <array>
#include <bit>
#include <charconv>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMaxDepth = 128;  // the maximum depth of skipped values, as in parse_json

// A word whose eight bytes are all `byte`.
constexpr std::uint64_t bytes_of(std::uint8_t byte) { return 0x0101010101010101U * byte; }

// The number of bytes at the start of a little-endian word that represent themselves in a string
// and are complete characters: no quote, no backslash, and at least a space but ASCII. 8: all.
std::size_t plain_bytes(std::uint64_t word) {
  // The high bit of the first byte that is zero is set. Bits of later bytes may be wrong.
  const auto zeros = [](std::uint64_t x) { return (x - bytes_of(1)) & ~x; };
  const std::uint64_t special = (word | zeros(word ^ bytes_of('"')) | zeros(word ^ bytes_of('\\')) |
                                 ((word - bytes_of(' ')) & ~word)) &
                                bytes_of(0x80);
  return static_cast<std::size_t>(std::countr_zero(special)) / 8;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The character that a backslash and this character stand for; NUL: not an escape of that kind.
constexpr std::array<char, 256> kEscaped = [] {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
  std::array<char, 256> escaped{};
  for (std::size_t i = 0; i < kNames.size(); ++i)
    escaped[static_cast<unsigned char>(kNames[i])] = kValues[i];
  return escaped;
}();

bool is_simple_escape(char c) { return kEscaped[static_cast<unsigned char>(c)] != 0; }

}  // namespace

JsonScanner::JsonScanner(std::string_view text) : text_(text) {
  if (without_byte_order_mark(text).size() != text.size()) fail(std::string(kHasByteOrderMark));
}

void JsonScanner::fail(const std::string& what) const {
  if (is_lfs_pointer(text_)) throw Error(Code::kDataLoss, std::string(kIsLfsPointer));
  throw Error(Code::kDataLoss, what + " at byte " + std::to_string(at_));
}

void JsonScanner::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
}

char JsonScanner::peek() {
  skip_space();
  if (at_ == text_.size()) fail("unexpected end of JSON");
  return text_[at_];
}

void JsonScanner::expect(char c, const char* what) {
  if (at_ < text_.size() && text_[at_] == c) {  // no space before it: the usual case
    ++at_;
    return;
  }
  if (peek() != c) fail("expected " + std::string(what));
  ++at_;
}

void JsonScanner::begin_object() {
  expect('{', "an object");
  fresh_ = true;
}

bool JsonScanner::next_member(std::string_view& key) {
  if (peek() == '}') {
    ++at_;
    fresh_ = false;
    return false;
  }
  if (!fresh_) expect(',', "',' or '}'");
  fresh_ = false;
  key = string_view(scratch_);
  expect(':', "':'");
  return true;
}

void JsonScanner::begin_array() {
  expect('[', "an array");
  fresh_ = true;
}

bool JsonScanner::next_item() {
  if (peek() == ']') {
    ++at_;
    fresh_ = false;
    return false;
  }
  if (!fresh_) {
    expect(',', "',' or ']'");
    if (peek() == ']') fail("expected a value");
  }
  fresh_ = false;
  return true;
}

std::string JsonScanner::string() {
  std::string out;
  string(out);
  return out;
}

void JsonScanner::string(std::string& out) {
  const std::string_view value = string_view(out);
  if (value.data() != out.data()) out.assign(value);
}

std::string_view JsonScanner::string_view(std::string& scratch) {
  expect('"', "a string");
  const std::size_t start = at_;
  to_special();
  if (at_ < text_.size() && text_[at_] == '"') return text_.substr(start, at_++ - start);
  scratch.clear();
  decode_from(start, [&](std::string_view piece) { scratch += piece; });
  return scratch;
}

void JsonScanner::skip_string() {
  expect('"', "a string");
  decode_from(at_, [](std::string_view /*piece*/) {});
}

// Goes to the next byte that does not represent itself in a string, or to the end of the text.
void JsonScanner::to_special() {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  while (text_.size() - at_ >= kWord) {
    const std::size_t plain =
        plain_bytes(load_little_endian<std::uint64_t>(as_bytes(text_).subspan(at_)));
    at_ += plain;
    if (plain < kWord) return;
  }
  for (; at_ < text_.size(); ++at_) {
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c < ' ' || c >= 0x80 || c == '"' || c == '\\') return;
  }
}

template <class Out>
void JsonScanner::decode_from(std::size_t start, Out out) {
  for (;;) {
    to_special();
    out(text_.substr(start, at_ - start));
    if (at_ == text_.size()) fail("unexpected end of a string");
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return;
    }
    start = at_;
    if (c == '\\') {
      if (at_ + 1 < text_.size() && is_simple_escape(text_[at_ + 1])) {
        out(std::string_view(&kEscaped[static_cast<unsigned char>(text_[at_ + 1])], 1));
        start = at_ += 2;
        continue;
      }
      std::string character;  // short, so it needs no memory of its own
      append_utf8(character, escape());
      out(character);
      start = at_;
      continue;
    }
    if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
    const Utf8Character character = decode_utf8(text_.substr(at_));
    if (!character.valid) fail("malformed UTF-8");
    at_ += character.length;
  }
}

// Consumes an escape that is not simple and returns the character that it stands for.
std::uint32_t JsonScanner::escape() {
  ++at_;
  if (at_ == text_.size()) fail("unexpected end of a string");
  if (text_[at_++] != 'u') fail("an unknown escape");
  std::uint32_t code = hex4();
  if (code >= 0xd800 && code < 0xdc00) {
    if (!text_.substr(at_).starts_with("\\u")) fail("incomplete surrogate pair");
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xdc00 || low > 0xdfff) fail("incomplete surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code <= 0xdfff) {
    fail("incomplete surrogate pair");
  }
  return code;
}

std::uint32_t JsonScanner::hex4() {
  std::uint32_t code = 0;
  if (text_.size() - at_ < 4) fail("unexpected end of a string");
  const char* end = text_.data() + at_ + 4;
  if (const auto parsed = std::from_chars(text_.data() + at_, end, code, 16);
      parsed.ec != std::errc() || parsed.ptr != end)
    fail("expected four hexadecimal digits");
  at_ += 4;
  return code;
}

void JsonScanner::word(std::string_view expected) {
  if (!text_.substr(at_).starts_with(expected)) fail("expected a value");
  at_ += expected.size();
}

bool JsonScanner::boolean() {
  const bool value = peek() == 't';
  if (!value && text_[at_] != 'f') fail("expected true or false");
  word(value ? "true" : "false");
  return value;
}

bool JsonScanner::null() {
  if (peek() != 'n') return false;
  word("null");
  return true;
}

std::int64_t JsonScanner::integer() {
  if (peek() != '-' && !is_digit(text_[at_])) fail("expected an integer");
  const std::size_t start = at_;
  number();
  std::int64_t value = 0;
  const char* end = text_.data() + at_;
  const auto parsed = std::from_chars(text_.data() + start, end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end) return value;
  at_ = start;
  fail("expected a 64-bit integer");
}

void JsonScanner::number() {
  const auto digits = [&] {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == start) fail("expected a digit");
    return at_ - start;
  };
  if (text_[at_] == '-') ++at_;
  const bool zero = at_ < text_.size() && text_[at_] == '0';
  if (digits() > 1 && zero) fail("a number with a leading zero");
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    digits();
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    digits();
  }
}

std::string_view JsonScanner::skip() {
  peek();
  const std::size_t start = at_;
  std::vector<char> open;
  std::string_view name;
  do {
    const char c = peek();
    if (c == '{' || c == '[') {
      if (open.size() == kMaxDepth)
        fail("JSON nested more than " + std::to_string(kMaxDepth) + " levels deep");
      open.push_back(c);
      c == '{' ? begin_object() : begin_array();
    } else if (c == '"') {
      skip_string();
    } else if (c == '-' && text_.substr(at_).starts_with("-Infinity")) {
      word("-Infinity");
    } else if (c == '-' || is_digit(c)) {
      number();
    } else {
      word(c == 't'   ? "true"
           : c == 'f' ? "false"
           : c == 'N' ? "NaN"
           : c == 'I' ? "Infinity"
                      : "null");
    }
    while (!open.empty() && !(open.back() == '{' ? next_member(name) : next_item()))
      open.pop_back();
  } while (!open.empty());
  return text_.substr(start, at_ - start);
}

bool JsonScanner::accept(std::string_view text) {
  if (!text_.substr(at_).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

std::optional<std::string_view> JsonScanner::plain_string() {
  if (!accept("\"")) return std::nullopt;
  const std::size_t start = at_;
  to_special();
  const std::size_t end = at_;
  if (!accept("\"")) return std::nullopt;
  return text_.substr(start, end - start);
}

void JsonScanner::finish() {
  skip_space();
  if (at_ != text_.size()) fail("unexpected text after the JSON value");
}

}  // namespace cairn::inline v0
