#include <cairn/tools/model_map/name_template.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/inspect.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cairn::inline v0 {
namespace {

constexpr int kDeepestNames = 16;  // strings with names of strings
constexpr std::size_t kLongestName = 4096;

void add_unique(const std::string& name, std::vector<std::string>& names) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

std::int64_t index_of(const Json& value, const std::string& text) {
  const auto index = value.as_int64();
  if (!index) invalid_argument(fmt::format("'{}' is {}, not an integer", text, shown_value(value)));
  return *index;
}

}  // namespace

NameTemplate::NameTemplate(std::string_view text) : text_(text) {
  if (text.size() > kLongestName)
    invalid_argument(fmt::format("a name of more than {} bytes", kLongestName));
  parse(text);
}

void NameTemplate::parse(std::string_view text) {
  std::string literal;
  const auto flush = [&] {
    if (!literal.empty()) parts_.push_back({std::nullopt, false, std::exchange(literal, "")});
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("{{") || rest.starts_with("}}")) {
      literal += rest[0];
      at += 2;
    } else if (rest[0] == '}') {
      invalid_argument(fmt::format("'{}': a '}}' without '{{'; write '}}}}' for a brace", text));
    } else if (rest[0] != '{') {
      literal += rest[0];
      ++at;
    } else {
      flush();
      const std::size_t end = rest.find('}');
      if (end == std::string_view::npos)
        invalid_argument(fmt::format("'{}': a '{{' is not closed", text));
      const std::string_view inside = rest.substr(1, end - 1);
      if (inside.starts_with('*'))
        parts_.push_back({std::nullopt, true, std::string(inside.substr(1))});
      else
        parts_.push_back({Expression(inside), false, ""});
      at += end + 1;
    }
  }
  flush();
}

NameTemplate NameTemplate::resolved(const Scope& scope) const {
  return with_context([&] { return "'" + printable_text(text_) + "'"; },
                      [&] {
                        NameTemplate out;
                        out.text_ = text_;
                        append(scope, 0, out.parts_);
                        return out;
                      });
}

void NameTemplate::append(const Scope& scope, int depth, std::vector<Part>& parts) const {
  if (depth > kDeepestNames) invalid_argument("its strings contain each other");
  for (const Part& part : parts_) {
    const auto add_text = [&](const std::string& text) {
      if (!parts.empty() && !parts.back().expression && !parts.back().any_text)
        parts.back().text += text;
      else
        parts.push_back({std::nullopt, false, text});
    };
    if (!part.expression) {
      part.any_text ? parts.push_back(part) : add_text(part.text);
      continue;
    }
    const std::vector<std::string> names = part.expression->names();
    if (!std::ranges::all_of(names,
                             [&](const auto& name) { return scope.find(name) != nullptr; })) {
      parts.push_back(part);
      continue;
    }
    const Json value = part.expression->evaluate(scope);
    if (value.as_string() != nullptr)
      NameTemplate(*value.as_string()).append(scope, depth + 1, parts);
    else
      add_text(std::to_string(index_of(value, part.expression->text())));
  }
}

std::vector<std::string> NameTemplate::variables(const Scope& scope) const {
  std::vector<std::string> found;
  for (const Part& part : parts_)
    if (part.expression)
      for (const std::string& name : part.expression->names())
        if (scope.find(name) == nullptr) add_unique(name, found);
  return found;
}

std::vector<std::string> NameTemplate::text_variables() const {
  std::vector<std::string> found;
  for (const Part& part : parts_)
    if (part.any_text) add_unique(part.text, found);
  return found;
}

std::string NameTemplate::expand(const Scope& scope, const Texts& texts) const {
  std::string name;
  for (const Part& part : parts_) {
    if (part.any_text) {
      const auto found = texts.find(part.text);
      if (found == texts.end())
        invalid_argument(fmt::format("'{}': the text of '{{*{}}}' is not known", text_, part.text));
      name += found->second;
    } else if (part.expression) {
      const Json value = part.expression->evaluate(scope);
      if (value.as_string() != nullptr)
        name += NameTemplate(*value.as_string()).resolved(scope).expand(scope, texts);
      else
        name += std::to_string(index_of(value, part.expression->text()));
    } else {
      name += part.text;
    }
  }
  return name;
}

std::optional<NameTemplate::Match> NameTemplate::match(std::string_view name) const {
  Match found;
  if (!match_from(0, name, found)) return std::nullopt;
  return found;
}

bool NameTemplate::match_from(std::size_t at, std::string_view rest, Match& match) const {
  if (at == parts_.size()) return rest.empty();
  const Part& part = parts_[at];
  if (part.expression) {
    std::int64_t number = 0;
    const std::size_t digits = std::min(rest.find_first_not_of(kDecimalDigits), rest.size());
    if (digits == 0 || (digits > 1 && rest[0] == '0')) return false;
    if (std::from_chars(rest.data(), rest.data() + digits, number).ec != std::errc()) return false;
    match.numbers.push_back(number);
    if (match_from(at + 1, rest.substr(digits), match)) return true;
    match.numbers.pop_back();
    return false;
  }
  if (!part.any_text)
    return rest.starts_with(part.text) && match_from(at + 1, rest.substr(part.text.size()), match);
  const auto known = match.texts.find(part.text);
  if (known != match.texts.end())
    return rest.starts_with(known->second) &&
           match_from(at + 1, rest.substr(known->second.size()), match);
  if (at + 1 == parts_.size()) {  // the rest, whatever it is
    if (rest.empty()) return false;
    if (!part.text.empty()) match.texts[part.text] = rest;
    return true;
  }
  for (std::size_t n = 1; n <= rest.size(); ++n) {
    if (!part.text.empty()) match.texts[part.text] = rest.substr(0, n);
    if (match_from(at + 1, rest.substr(n), match)) return true;
  }
  match.texts.erase(part.text);
  return false;
}

std::optional<std::pair<Indices, Texts>> NameTemplate::solve(std::string_view name,
                                                             Scope& scope) const {
  const auto found = match(name);
  if (!found) return std::nullopt;
  scope.set_indices({});
  Indices indices;
  std::size_t place = 0;
  for (const Part& part : parts_) {
    if (!part.expression) continue;
    const std::int64_t number = found->numbers[place++];
    std::vector<std::string> free;
    for (const std::string& variable : part.expression->names())
      if (scope.find(variable) == nullptr) free.push_back(variable);
    if (free.size() != 1)
      invalid_argument(
          fmt::format("'{}': '{{{}}}' has {} loop variables; give their counts with "
                      "'for'",
                      text_, part.expression->text(), free.size()));
    const auto value_at = [&](std::int64_t index) {
      scope.set_indices({{free[0], index}});
      return index_of(part.expression->evaluate(scope), part.expression->text());
    };
    const std::int64_t first = value_at(0);
    const std::int64_t step = value_at(1) - first;
    const std::int64_t index = step == 0 ? 0 : (number - first) / step;
    const bool fits = index >= 0 && value_at(index) == number;
    scope.set_indices({});
    if (step == 0 || !fits) return std::nullopt;
    const auto [known, added] = indices.emplace(free[0], index);
    if (!added && known->second != index) return std::nullopt;
  }
  return std::pair(std::move(indices), found->texts);
}

}  // namespace cairn::inline v0
