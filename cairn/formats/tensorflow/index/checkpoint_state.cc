// checkpoint_state.cc -- parses the part of protobuf's text format that this message, and fields
// added to it later, can use.
//
//   message  {field [',' | ';']}
//   field    name ':' value | name [':'] '{' message '}' | name [':'] '<' message '>'
//   value    scalar | '[' value, ... ']'
//   scalar   string {string} | number | word
//   comments run from '#' to the end of the line
#include <cairn/formats/tensorflow/index/checkpoint_state.h>

#include <cairn/base/json/json.h>
#include <cairn/base/utf8.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/url.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kMaxSize = std::uint64_t{64} << 20U;
constexpr int kMaxDepth = 100;  // of messages and lists that are skipped

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

class StateParser {
 public:
  explicit StateParser(std::string_view text) : text_(text) {}

  CheckpointState parse() {
    for (skip_space(); at_ < text_.size(); skip_space()) field(0, true);
    return std::move(state_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const auto line =
        1 + std::count(text_.begin(),
                       text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())),
                       '\n');
    throw Error(Code::kDataLoss,
                "is not a checkpoint state file: line " + std::to_string(line) + ": " + what);
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    skip_space();
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  void skip_space() {
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        ++at_;
    }
  }
  std::string_view word(const char* what) {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == start) fail("expected " + std::string(what));
    return text_.substr(start, at_ - start);
  }

  std::string_view name() {
    if (!accept('[')) return word("the name of a field");
    // An extension, or a type that is packed into an Any.
    at_ = std::min(text_.find(']', at_), text_.size());
    expect(']');
    return {};
  }

  void field(int depth, bool is_ours) {
    if (depth > kMaxDepth)
      fail("messages are nested more than " + std::to_string(kMaxDepth) + " deep");
    const std::string_view field_name = name();
    skip_space();
    const bool colon = accept(':');
    skip_space();
    if (is_ours && field_name == "model_checkpoint_path")
      state_.model_checkpoint_path = path(colon);
    else if (is_ours && field_name == "all_model_checkpoint_paths")
      values(colon, [&] { state_.all_model_checkpoint_paths.push_back(path(true)); });
    else if (is_ours && field_name == "all_model_checkpoint_timestamps")
      values(colon, [&] { state_.all_model_checkpoint_timestamps.push_back(number(true)); });
    else if (is_ours && field_name == "last_preserved_timestamp")
      state_.last_preserved_timestamp = number(colon);
    else
      pass_value(depth, colon);
    skip_space();
    if (!accept(',')) accept(';');
  }

  // Parses one value, or a list of values.
  void values(bool colon, const std::function<void()>& one) {
    if (!colon) fail("expected ':'");
    if (!accept('[')) return one();
    for (skip_space(); !accept(']'); skip_space()) {
      one();
      skip_space();
      if (peek() != ']') expect(',');
    }
  }

  void pass_value(int depth, bool colon) {
    const char c = peek();
    if (c == '{' || c == '<') {
      ++at_;
      const char end = c == '{' ? '}' : '>';
      for (skip_space(); !accept(end); skip_space()) field(depth + 1, false);
    } else if (c == '[') {
      if (depth > kMaxDepth)
        fail("lists are nested more than " + std::to_string(kMaxDepth) + " deep");
      values(true, [&] { pass_value(depth + 1, true); });
    } else if (!colon) {
      fail("expected ':'");
    } else if (c == '"' || c == '\'') {
      text();
    } else {
      word("a value");
    }
  }

  double number(bool colon) {
    if (!colon) fail("expected ':'");
    std::string_view digits = word("a number");
    if (digits.size() > 1 && (digits.back() == 'f' || digits.back() == 'F') &&
        digits[digits.size() - 2] <= '9')
      digits.remove_suffix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::invalid_argument || end != digits.data() + digits.size())
      fail("'" + std::string(digits.substr(0, 40)) + "' is not a number");
    // Beyond the range of a double: the nearest value, which is 0 or infinity.
    if (error == std::errc::result_out_of_range) {
      const bool tiny = digits.find("e-") != std::string_view::npos ||
                        digits.find("E-") != std::string_view::npos;
      value = std::copysign(tiny ? 0 : HUGE_VAL, digits.front() == '-' ? -1.0 : 1.0);
    }
    return value;
  }

  std::string path(bool colon) {
    if (!colon) fail("expected ':'");
    std::string value = text();
    if (!valid_utf8(value)) fail("a path is not UTF-8");
    return value;
  }

  // Consecutive literals form one string.
  std::string text() {
    std::string out;
    if (peek() != '"' && peek() != '\'') fail("expected a quoted string");
    for (; peek() == '"' || peek() == '\''; skip_space()) literal(out);
    return out;
  }

  void literal(std::string& out) {
    const char quote = text_[at_++];
    while (!accept(quote)) {
      if (at_ >= text_.size() || text_[at_] == '\n') fail("a string is not terminated");
      const char c = text_[at_++];
      if (c == '\\')
        escape(out);
      else
        out += c;
    }
  }

  void escape(std::string& out) {
    constexpr std::string_view kLetters = "abfnrtv\\'\"?", kMeanings = "\a\b\f\n\r\t\v\\'\"?";
    const char c = peek();
    if (const std::size_t at = kLetters.find(c); c != '\0' && at != std::string_view::npos) {
      ++at_;
      out += kMeanings[at];
    } else if (const auto octal = digits(8, 1, 3)) {
      if (*octal > 0xff) fail("an escape is larger than a byte");
      out += static_cast<char>(*octal);
    } else if (c == 'x' || c == 'X') {
      ++at_;
      out += static_cast<char>(wanted(digits(16, 1, 2)));
    } else if (c == 'u' || c == 'U') {
      ++at_;
      const std::uint32_t code = wanted(c == 'u' ? digits(16, 4, 4) : digits(16, 8, 8));
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        fail("an escape is not a valid character");
      append_utf8(out, code);
    } else {
      fail("unknown escape");
    }
  }

  // Parses the next digits, `most` of them at most. Returns nullopt, without moving, if there are
  // fewer than `least`.
  std::optional<std::uint32_t> digits(int base, std::size_t least, std::size_t most) {
    std::uint32_t value = 0;
    const char* first = text_.data() + at_;
    const auto end =
        std::from_chars(first, first + std::min(most, text_.size() - at_), value, base).ptr;
    const auto count = static_cast<std::size_t>(end - first);
    if (count < least) return std::nullopt;
    at_ += count;
    return value;
  }
  std::uint32_t wanted(const std::optional<std::uint32_t>& value) const {
    if (!value) fail("an escape lacks its digits");
    return *value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  CheckpointState state_;
};

std::string in_escaped_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    constexpr std::string_view kSpecial = "\t\n\r\"'\\", kLetters = "tnr\"'\\";
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t at = kSpecial.find(c); at != std::string_view::npos) {
      out.append("\\").append(1, kLetters[at]);
    } else if (byte < 0x20 || byte == 0x7f) {
      out += '\\';
      for (const unsigned shift : {6U, 3U, 0U})
        out += static_cast<char>('0' + (byte >> shift & 7U));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string number_line(std::string_view name, double value) {
  const std::string text = std::isfinite(value) ? to_text(Json(value), JsonStyle::kPython)
                           : std::isnan(value)  ? "nan"
                           : value < 0          ? "-inf"
                                                : "inf";
  return std::string(name) + ": " + text + "\n";
}

}  // namespace

Result<CheckpointState> parse_checkpoint_state(std::string_view text) {
  return try_call([&] { return StateParser(text).parse(); });
}

std::string encode_checkpoint_state(const CheckpointState& state) {
  std::string out;
  const auto put_path = [&](std::string_view name, const std::string& path) {
    if (!valid_utf8(path))
      throw Error(
          Code::kInvalidArgument,
          "the path of the checkpoint is not UTF-8, which the file that names the latest requires");
    out.append(name).append(": ").append(in_escaped_quotes(path)).append("\n");
  };
  if (!state.model_checkpoint_path.empty())
    put_path("model_checkpoint_path", state.model_checkpoint_path);
  for (const std::string& path : state.all_model_checkpoint_paths)
    put_path("all_model_checkpoint_paths", path);
  for (const double timestamp : state.all_model_checkpoint_timestamps)
    out += number_line("all_model_checkpoint_timestamps", timestamp);
  if (state.last_preserved_timestamp != 0)
    out += number_line("last_preserved_timestamp", state.last_preserved_timestamp);
  return out;
}

Result<CheckpointState> read_checkpoint_state(const FileTree& tree, const std::string& path) {
  return try_look(tree.is_local(), [&] {
    const Bytes bytes = read_file(tree.open(path), kMaxSize);
    return with_context([&] { return path; },
                        [&] { return parse_checkpoint_state(as_text(bytes)).value(); });
  });
}

void write_checkpoint_state(const std::string& path, const CheckpointState& state) {
  write_file_atomically(path, as_bytes(encode_checkpoint_state(state)));
}

std::string resolve_checkpoint_path(std::string_view folder, std::string_view path) {
  const bool is_url = !url_scheme(folder).empty() && !url_scheme(path).empty();
  if (path.starts_with('/') || folder.empty() || is_url) return std::string(path);
  return std::string(folder) + (folder.ends_with('/') ? "" : "/") + std::string(path);
}

CheckpointState with_latest(CheckpointState state, const std::string& path, double timestamp) {
  auto& paths = state.all_model_checkpoint_paths;
  auto& timestamps = state.all_model_checkpoint_timestamps;
  const bool timed = !paths.empty() && timestamps.size() == paths.size();
  if (!timed) timestamps.clear();
  for (std::size_t i = paths.size(); i-- > 0;) {
    if (paths[i] != path) continue;
    paths.erase(paths.begin() + static_cast<std::ptrdiff_t>(i));
    if (timed) timestamps.erase(timestamps.begin() + static_cast<std::ptrdiff_t>(i));
  }
  paths.push_back(path);
  if (timed) timestamps.push_back(timestamp);
  state.model_checkpoint_path = path;
  return state;
}

}  // namespace cairn::inline v0
