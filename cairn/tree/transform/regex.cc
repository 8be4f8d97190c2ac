// regex.cc -- implements Regex with PCRE2; the only file that includes it.
#define PCRE2_CODE_UNIT_WIDTH 8

#include <cairn/tree/transform/regex.h>

#include <cairn/base/utf8.h>
#include <cairn/error.h>
#include <cairn/tree/transform/regex_syntax.h>

#include <pcre2.h>

#include <array>
#include <new>

namespace cairn::inline v0 {
namespace {

// Patterns are written by people, or come from someone else's rules file.
constexpr std::size_t kMaxPattern = 4096;  // bytes
// about 50 ms; stops patterns that backtrack without end
constexpr std::uint32_t kMatchSteps = 1'000'000;
constexpr std::uint32_t kMatchDepth = 100'000;
constexpr std::uint32_t kMatchHeap = 64U << 10U;  // KiB

// In Python's words where it refuses the same.
std::string pcre_message(int code) {
  if (code == PCRE2_ERROR_LOOKBEHIND_NOT_FIXED_LENGTH)
    return "look-behind requires fixed-width pattern";
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <class T, void (*kFree)(T*)>
struct Freed {
  void operator()(T* p) const { kFree(p); }
};
using PcreCode = std::unique_ptr<pcre2_code, Freed<pcre2_code, pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context, pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context,
                                       Freed<pcre2_compile_context, pcre2_compile_context_free>>;

std::uint32_t options_of(const RegexSyntax& syntax, Regex::Extent extent) {
  // As in Python, a reference to a group that took no part fails, and only \z matches the very end.
  std::uint32_t options = PCRE2_UTF | PCRE2_ALT_CIRCUMFLEX | PCRE2_NEVER_BACKSLASH_C;
  if (extent == Regex::Extent::kWhole) options |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
  if (!syntax.ascii) options |= PCRE2_UCP;
  if (syntax.ignore_case) options |= PCRE2_CASELESS;
  if (syntax.multi_line) options |= PCRE2_MULTILINE;
  if (syntax.dot_all) options |= PCRE2_DOTALL;
  return options;
}

PcreCode compile(std::string_view pattern, const RegexSyntax& syntax, std::uint32_t options) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  std::size_t offset = 0;
  PcreCode code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(syntax.pcre.data()), syntax.pcre.size(),
                              options, &error, &offset, context.get()));
  if (code) return code;
  const std::size_t origin =
      offset < syntax.origins.size() ? syntax.origins[offset] : pattern.size();
  fail_regex("regular expression", pattern, origin, pcre_message(error));
}

[[noreturn]] void fail_match(const std::string& pattern, std::string_view text,
                             const std::string& why) {
  constexpr std::size_t kShown = 200;  // bytes
  const std::string shown =
      text.size() > kShown ? std::string(text.substr(0, kShown)) + "..." : std::string(text);
  throw Error(Code::kInvalidArgument,
              "regular expression '" + pattern + "' on '" + shown + "': " + why);
}

std::vector<std::pair<std::string, std::size_t>> group_names(const pcre2_code* code) {
  std::uint32_t count = 0;
  std::uint32_t size = 0;
  PCRE2_SPTR table = nullptr;
  pcre2_pattern_info(code, PCRE2_INFO_NAMECOUNT, &count);
  pcre2_pattern_info(code, PCRE2_INFO_NAMEENTRYSIZE, &size);
  pcre2_pattern_info(code, PCRE2_INFO_NAMETABLE, &table);
  std::vector<std::pair<std::string, std::size_t>> names;
  // each entry: two bytes for the number, then the name and a zero byte
  for (std::uint32_t i = 0; i < count; ++i, table += size)
    names.emplace_back(reinterpret_cast<const char*>(table + 2),
                       static_cast<std::size_t>(table[0]) * 256 + table[1]);
  return names;
}

}  // namespace

struct Regex::Compiled {
  PcreCode code;
  std::uint32_t options = 0;
  PcreCode of_any_bytes;  // the same pattern for text that is not UTF-8; compiled on first use
  MatchData data;
  MatchContext context;
};

std::string regex_library_version() {
  std::array<char, 64> text{};  // "10.42 2022-12-11"
  pcre2_config(PCRE2_CONFIG_VERSION, text.data());
  const std::string_view version(text.data());
  return std::string(version.substr(0, version.find(' ')));
}

Regex::Regex(std::string_view pattern, Extent extent) : pattern_(pattern) {
  if (pattern.size() > kMaxPattern)
    throw Error(Code::kInvalidArgument, "a regular expression of " +
                                            std::to_string(pattern.size()) + " bytes: at most " +
                                            std::to_string(kMaxPattern) + " are allowed");
  if (!valid_utf8(pattern))
    fail_regex("regular expression", pattern, find_invalid_utf8(pattern),
               "bytes that are not UTF-8");
  const RegexSyntax syntax = parse_regex_syntax(pattern);
  literal_ = syntax.literal;
  compiled_ = std::make_unique<Compiled>();
  compiled_->options = options_of(syntax, extent);
  compiled_->code = compile(pattern, syntax, compiled_->options);
  compiled_->data.reset(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  if (!compiled_->data || !compiled_->context) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->context.get(), kMatchSteps);
  pcre2_set_depth_limit(compiled_->context.get(), kMatchDepth);
  pcre2_set_heap_limit(compiled_->context.get(), kMatchHeap);
  names_ = group_names(compiled_->code.get());
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::check_template(std::string_view text) const {
  std::uint32_t groups = 0;
  pcre2_pattern_info(compiled_->code.get(), PCRE2_INFO_CAPTURECOUNT, &groups);
  (void)expand(text, Groups(groups + 1));
}

std::optional<Regex::Groups> Regex::match(const Subject& subject, std::size_t from,
                                          bool may_be_empty) {
  // The caller has checked the UTF-8 once, so PCRE2 need not repeat it for every match. In other
  // text, PCRE2 skips the invalid bytes.
  const std::uint32_t options =
      (subject.is_utf8 ? PCRE2_NO_UTF_CHECK : 0U) | (may_be_empty ? 0U : PCRE2_NOTEMPTY_ATSTART);
  const pcre2_code* code = (subject.is_utf8 ? compiled_->code : compiled_->of_any_bytes).get();
  const std::string_view text = subject.text;
  const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                options, compiled_->data.get(), compiled_->context.get());
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) fail_match(pattern_, text, pcre_message(found));
  const std::size_t* ends = pcre2_get_ovector_pointer(compiled_->data.get());
  Groups groups(pcre2_get_ovector_count(compiled_->data.get()));
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (ends[2 * i] != PCRE2_UNSET)
      groups[i] = text.substr(ends[2 * i], ends[2 * i + 1] - ends[2 * i]);
  return groups;
}

std::optional<Regex::Groups> Regex::full_match(std::string_view text) {
  if (!valid_utf8(text)) fail_match(pattern_, text, "bytes that are not UTF-8");
  return match({text, true}, 0, true);
}

std::string Regex::replace_all(std::string_view text, std::string_view replacement) {
  const Subject subject{text, valid_utf8(text)};
  if (!subject.is_utf8 && !compiled_->of_any_bytes)
    compiled_->of_any_bytes = compile(pattern_, parse_regex_syntax(pattern_),
                                      compiled_->options | PCRE2_MATCH_INVALID_UTF);
  std::string out;
  std::size_t done = 0;  // bytes of the text that are copied
  bool was_empty = false;
  while (const auto groups = match(subject, done, !was_empty)) {
    const std::string_view whole = *groups->front();
    const auto begin = static_cast<std::size_t>(whole.data() - text.data());
    out.append(text.substr(done, begin - done));
    out += expand(replacement, *groups);
    done = begin + whole.size();
    was_empty = whole.empty();
  }
  return out.append(text.substr(done));
}

}  // namespace cairn::inline v0
