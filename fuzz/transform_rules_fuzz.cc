// transform_rules_fuzz.cc -- parses any bytes as transform rules, or as the regular expressions and
// templates in them. If the first byte is 'x', the rest is an expression, a text and a template,
// separated by newlines. Otherwise the rest is a set of rules.
#include <cairn/error.h>
#include <cairn/tools/transform/transform_rules.h>
#include <cairn/tree/transform/regex.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace {

std::string_view line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return out;
}

void match(std::string_view text) {
  cairn::Regex regex(line(text));
  const std::string_view subject = line(text);
  if (const auto groups = regex.full_match(subject)) (void)regex.expand(text, *groups);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'x') {
      match(text);
    } else {
      for (const auto& rule : cairn::parse_transform_rules(text).rules) cairn::Regex{rule.pattern};
    }
  } catch (const cairn::Error&) {  // most inputs are rejected
  }
  return 0;
}
