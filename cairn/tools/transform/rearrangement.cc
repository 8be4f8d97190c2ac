#include <cairn/tools/transform/rearrangement.h>

#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

// The names of one side, grouped by axis.
std::vector<std::vector<std::string>> parse_axes(std::string_view text) {
  std::vector<std::vector<std::string>> axes;
  bool in_group = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == ' ') {
      ++at;
    } else if (c == '(' && !in_group) {
      in_group = true;
      axes.emplace_back();
      ++at;
    } else if (c == ')' && in_group) {
      in_group = false;
      ++at;
    } else if (c == '1' && (at + 1 == text.size() || !is_name_char(text[at + 1]))) {
      if (!in_group) axes.emplace_back();
      ++at;
    } else if (is_name_start(c)) {
      const std::size_t begin = at;
      while (at < text.size() && is_name_char(text[at])) ++at;
      if (!in_group) axes.emplace_back();
      axes.back().emplace_back(text.substr(begin, at - begin));
    } else {
      invalid_argument(fmt::format(
          "'{}': expected names, 1 and brackets, as in 'a (b c)', not '{}' at {}", text, c, at));
    }
  }
  if (in_group) invalid_argument(fmt::format("'{}': a bracket is not closed", text));
  return axes;
}

}  // namespace

Rearrangement Rearrangement::inverse() const {
  Rearrangement out = *this;
  std::swap(out.from, out.to);
  return out;
}

Rearrangement parse_rearrangement(std::string_view text) {
  constexpr std::string_view kArrow = "->";
  const std::size_t arrow = text.find(kArrow);
  const auto left = parse_axes(text.substr(0, std::min(arrow, text.size())));
  const auto right =
      arrow == std::string_view::npos ? left : parse_axes(text.substr(arrow + kArrow.size()));
  Rearrangement out;
  out.text = text;
  for (const auto& axis : left) {
    auto& parts = out.from.emplace_back();
    for (const std::string& name : axis) {
      if (std::ranges::find(out.names, name) != out.names.end())
        invalid_argument(fmt::format("'{}': '{}' appears twice on one side", text, name));
      parts.push_back(out.names.size());
      out.names.push_back(name);
    }
  }
  std::vector<bool> used(out.names.size());
  for (const auto& axis : right) {
    auto& parts = out.to.emplace_back();
    for (const std::string& name : axis) {
      const auto found = std::ranges::find(out.names, name);
      const auto part = static_cast<std::size_t>(found - out.names.begin());
      if (found == out.names.end() || used[part])
        invalid_argument(fmt::format("'{}': '{}' must appear once on each side", text, name));
      used[part] = true;
      parts.push_back(part);
    }
  }
  for (std::size_t part = 0; part < used.size(); ++part)
    if (!used[part])
      invalid_argument(fmt::format("'{}': '{}' is missing on the right side; no axis can be summed",
                                   text, out.names[part]));
  return out;
}

std::string axes_text(const Rearrangement& rearrangement, const Rearrangement::Axes& axes) {
  std::string text;
  for (const auto& axis : axes) {
    std::string names;
    for (const std::size_t part : axis)
      names += (names.empty() ? "" : " ") + rearrangement.names[part];
    if (axis.empty()) names = "1";
    text += (text.empty() ? "" : " ") + (axis.size() > 1 ? "(" + names + ")" : names);
  }
  return text;
}

std::vector<std::int64_t> solve_extents(const Rearrangement& rearrangement, const Shape& shape,
                                        const std::vector<std::optional<std::int64_t>>& known) {
  const std::string left = axes_text(rearrangement, rearrangement.from);
  const auto refuse = [&](const std::string& why) {
    invalid_argument(fmt::format("shape {} does not match '{}': {}", shape_text(shape), left, why));
  };
  if (shape.size() != rearrangement.from.size())
    refuse(fmt::format("expected {} dimensions", rearrangement.from.size()));
  std::vector<std::int64_t> extents(rearrangement.names.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t product = 1;
    std::optional<std::size_t> unknown;
    std::string parts;
    for (const std::size_t part : rearrangement.from[d]) {
      const auto& extent = known[part];
      if (!extent) {
        if (unknown)
          invalid_argument(fmt::format("'{}': the sizes of '{}' and '{}' are not known; give one",
                                       left, rearrangement.names[*unknown],
                                       rearrangement.names[part]));
        unknown = part;
        continue;
      }
      if (*extent < 1 || __builtin_mul_overflow(product, *extent, &product))
        refuse(fmt::format("{} = {}", rearrangement.names[part], *extent));
      extents[part] = *extent;
      parts +=
          fmt::format("{}{} = {}", parts.empty() ? "" : ", ", rearrangement.names[part], *extent);
    }
    if (unknown) {
      if (shape[d] % product != 0)
        refuse(fmt::format("axis {} of {} elements cannot be divided by {}", d, shape[d], product));
      extents[*unknown] = shape[d] / product;
    } else if (product != shape[d]) {
      refuse(fmt::format("axis {} has {} elements, expected {}{}", d, shape[d], product,
                         parts.empty() ? "" : " (" + parts + ")"));
    }
  }
  return extents;
}

}  // namespace cairn::inline v0
