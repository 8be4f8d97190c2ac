// names.cc -- compares typed names with those of leaves, and names leaves in messages.
#include <cairn/tree/names.h>

#include <cairn/tree/depth.h>

#include <algorithm>

namespace cairn::inline v0 {

bool is_typed_as(std::string_view typed, std::string_view name) {
  return std::equal(typed.begin(), typed.end(), name.begin(), name.end(),
                    [](char a, char b) { return is_typed_as(a, b); });
}

std::string with_dots(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '/', '.');
  return out;
}

std::string with_dots_in_expression(std::string_view expression) {
  std::string out;
  std::size_t class_start = std::string_view::npos;  // of the open class: after "[" or "[^"
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const bool in_class = class_start != std::string_view::npos;
    const bool escaped = expression[i] == '\\' && i + 1 < expression.size();
    if (escaped) ++i;
    const char c = expression[i];
    if (c == '/') {
      out += in_class ? "/." : "[/.]";
      continue;
    }
    if (escaped) out += '\\';
    out += c;
    if (escaped) continue;
    if (in_class) {
      if (c == ']' && i != class_start) class_start = std::string_view::npos;
    } else if (c == '[') {
      class_start = i + 1;
      if (class_start < expression.size() && expression[class_start] == '^') {
        out += '^';
        i = class_start++;
      }
    }
  }
  return out;
}

std::string leaf_text(const KeyPath& path) { return path.empty() ? "the root" : param_name(path); }

std::string quoted_leaf_text(const KeyPath& path) {
  return path.empty() ? "the root" : "'" + param_name(path) + "'";
}

std::string too_deep_text(const KeyPath& path) {
  constexpr std::size_t kKeysShown = 8;
  const KeyPath first(path.begin(), path.begin() + std::min(path.size(), kKeysShown));
  return "the tree is more than " + std::to_string(kMaxTreeDepth) + " levels deep, below '" +
         param_name(first) + "...'";
}

}  // namespace cairn::inline v0
