// diff_text.cc -- the differences of two checkpoints as text for people.
#include "screen/diff_text.h"

#include "screen/terminal.h"
#include "screen/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace cairn::cli {
namespace {

constexpr std::size_t kTextShown = 60;  // bytes of a string

std::string type_text(const DiffSide& side) {
  if (side.kind == LeafKind::kUnknown) return "unreadable";
  if (side.kind == LeafKind::kString) return "string";
  if (side.kind != LeafKind::kArray) return printable_text(side.typestr);
  return printable_text(side.dtype_name) + " " + shape_text(side.shape);
}

std::string quoted(const std::string& text) {
  return "\"" +
         printable_text(text.size() > kTextShown ? text.substr(0, kTextShown) + "..." : text) +
         "\"";
}

std::string number_text(const std::optional<double>& v) {
  return v ? fmt::format("{:.3g}", *v) : "-";
}

// Close to 1, with so many digits that the distance from 1 shows: "0.9999999975".
std::string cosine_text(const std::optional<double>& v) {
  if (!v || *v == 1) return v ? "1" : "-";
  if (*v <= 0.999 || *v > 1) return fmt::format("{:.4f}", *v);
  const double distance = 1 - *v;
  return fmt::format("{:.{}f}", *v, static_cast<int>(std::ceil(-std::log10(distance))) + 1);
}

// "3 of 16.4 K", "all of 16.4 K"; exact where two different numbers look the same.
std::string count_of_text(const LeafDiff& leaf) {
  const std::uint64_t count = leaf.values->different;
  const auto all = static_cast<std::uint64_t>(element_count(leaf.a.shape));
  if (count == all && count > 1) return "all of " + short_count_text(all);
  const std::string shown = short_count_text(count);
  const std::string of = short_count_text(all);
  if (shown == of && count != all) return count_text(count) + " of " + count_text(all);
  return shown + " of " + of;
}

// What the columns of the table do not show.
std::string special_text(const ValueDiff& v) {
  std::string text;
  const auto add = [&](std::uint64_t count, std::string_view what) {
    if (count > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count_text(count), what);
  };
  add(v.nan_mismatches, "NaN in only one");
  add(v.inf_mismatches, "with different infinities");
  add(v.bits_only, "in bits only (-0.0, NaN payload)");
  return text;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string key_text(const DiffSide& side) {
  return side.random_key_impl.empty() ? "no PRNG key"
                                      : "PRNG key " + printable_text(side.random_key_impl);
}

// Lists the differences of a leaf, the most important first.
std::string difference_text(const LeafDiff& leaf) {
  std::string text;
  const auto add = [&](const std::string& part) {
    text.append(text.empty() || part.empty() ? "" : "; ").append(part);
  };
  if (has(leaf.differs, "kind"))
    add(printable_text(leaf.a.typestr) + " -> " + printable_text(leaf.b.typestr));
  if (has(leaf.differs, "dtype"))
    add(printable_text(leaf.a.dtype_name) + " -> " + printable_text(leaf.b.dtype_name));
  if (has(leaf.differs, "shape")) add(shape_text(leaf.a.shape) + " -> " + shape_text(leaf.b.shape));
  if (has(leaf.differs, "random_key")) add(key_text(leaf.a) + " -> " + key_text(leaf.b));
  if (has(leaf.differs, "values"))
    add(leaf.values ? special_text(*leaf.values)
                    : quoted(leaf.a.text) + " -> " + quoted(leaf.b.text));
  return text;
}

std::string row(std::string_view paint, std::string_view label, const std::string& name,
                const std::string& text) {
  const Style& style = stdout_style();
  return fmt::format("{}{:<10}{}  {}{}{}\n", paint, label, style.reset, name,
                     text.empty() ? "" : ": ", text);
}

std::string leaf_text(const LeafDiff& leaf) {
  const Style& style = stdout_style();
  const std::string name = printable_text(full_name(leaf));
  switch (leaf.state) {
    case LeafState::kSame:
      return "";
    case LeafState::kOnlyInA:
      return row(style.red, "only in A", name, type_text(leaf.a));
    case LeafState::kOnlyInB:
      return row(style.green, "only in B", name, type_text(leaf.b));
    case LeafState::kDifferent:  // the table shows the rest
      if (const std::string text = difference_text(leaf); !text.empty())
        return row(style.yellow, "different", name, text);
      return "";
    case LeafState::kUnreadable:
      break;
  }
  std::string text;
  for (const auto& [side, label] : {std::pair(&leaf.a, "A"), std::pair(&leaf.b, "B")})
    if (!side->error.empty())
      text += row(style.red, "unreadable", name,
                  fmt::format("in {}: {}", label, printable_text(side->error)));
  return text;
}

// The table of leaves whose values differ.
class ValueTable {
 public:
  void add(const LeafDiff& leaf) {
    const ValueDiff& v = *leaf.values;
    names_.push_back(printable_text(full_name(leaf)));
    rows_.push_back({count_of_text(leaf), number_text(v.max_abs_error), number_text(v.rms_error),
                     number_text(v.relative_error), cosine_text(v.cosine),
                     v.first && !leaf.a.shape.empty()
                         ? shape_text(element_index(leaf.a.shape, *v.first))
                         : ""});
  }

  // One line a leaf. On a narrow terminal the name has its own line.
  [[nodiscard]] std::string text() const {
    if (rows_.empty()) return "";
    Table wide = table({{"name", Align::kLeft, {}}});
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      auto cells = rows_[i];
      cells.insert(cells.begin(), names_[i]);
      wide.add(std::move(cells));
    }
    if (wide.width() <= terminal_width()) return wide.text(true);
    Table numbers = table({});
    for (const auto& cells : rows_) numbers.add(cells);
    numbers.fit(terminal_width() - kIndent);
    std::string text = numbers.text(true);
    std::string out;
    for (std::size_t i = 0; i <= rows_.size(); ++i) {
      const std::size_t end = text.find('\n') + 1;
      if (i > 0) out += names_[i - 1] + "\n";
      out.append(kIndent, ' ').append(text, 0, end);
      text.erase(0, end);
    }
    return out;
  }

 private:
  static constexpr std::size_t kIndent = 2;

  static Table table(std::vector<Column> columns) {
    const Style& style = stdout_style();
    for (const char* title : {"different", "max abs", "RMS", "relative", "cosine"})
      columns.push_back(
          {title, Align::kRight,
           title == std::string_view("relative") ? style.yellow : std::string_view()});
    columns.push_back({"first", Align::kLeft, style.dim});
    return Table(std::move(columns));
  }

  std::vector<std::string> names_;
  std::vector<std::vector<std::string>> rows_;
};

// The measure to sort by, the worst the largest. None for leaves that do not have it.
std::optional<double> badness(const LeafDiff& leaf, const std::string& by) {
  if (!leaf.values) return std::nullopt;
  const ValueDiff& v = *leaf.values;
  if (by == "non-finite")
    return v.non_finite() > 0 ? std::optional(static_cast<double>(v.non_finite())) : std::nullopt;
  if (by == "different") return static_cast<double>(v.different);
  if (by == "max-abs") return v.max_abs_error;
  if (by == "rms") return v.rms_error;
  if (by == "relative") return v.relative_error;
  return v.cosine ? std::optional(-*v.cosine) : std::nullopt;
}

const LeafDiff* worst_by(const DiffReport& report, const std::string& by) {
  const LeafDiff* worst = nullptr;
  for (const LeafDiff& leaf : report.leaves)
    if (leaf.state == LeafState::kDifferent && badness(leaf, by) &&
        (worst == nullptr || badness(leaf, by) > badness(*worst, by)))
      worst = &leaf;
  return worst;
}

}  // namespace

void sort_diff(DiffReport& report, const std::string& by) {
  if (by.empty()) return;
  std::stable_sort(
      report.leaves.begin(), report.leaves.end(), [&](const LeafDiff& a, const LeafDiff& b) {
        const bool first = differs_in_non_finite(a);
        if (first != differs_in_non_finite(b)) return first;
        // nullopt is less than every number
        return by == "name" ? full_name(a) < full_name(b) : badness(a, by) > badness(b, by);
      });
}

std::string leaves_text(const DiffReport& report, std::size_t limit) {
  std::string lines;
  ValueTable table;
  std::size_t shown = 0;
  std::size_t hidden = 0;
  for (const LeafDiff& leaf : report.leaves) {
    if (leaf.state == LeafState::kSame) continue;
    if (shown == limit) {
      ++hidden;
      continue;
    }
    ++shown;
    lines += leaf_text(leaf);
    if (leaf.values && leaf.state == LeafState::kDifferent) table.add(leaf);
  }
  std::string text = lines + table.text();
  if (hidden > 0) text += "... and " + plural(hidden, "leaf") + " more (--limit)\n";
  return text;
}

std::string worst_text(const DiffReport& report) {
  std::string text;
  const auto add = [&](const std::string& by, std::string_view label, const auto& shown) {
    if (const LeafDiff* leaf = worst_by(report, by))
      text += fmt::format("{:<13}{:>10}  {}\n", label, shown(*leaf->values),
                          printable_text(full_name(*leaf)));
  };
  add("non-finite", "NaN or Inf", [](const ValueDiff& v) { return count_text(v.non_finite()); });
  add("max-abs", "max abs", [](const ValueDiff& v) { return number_text(v.max_abs_error); });
  add("rms", "RMS", [](const ValueDiff& v) { return number_text(v.rms_error); });
  add("relative", "relative", [](const ValueDiff& v) { return number_text(v.relative_error); });
  add("cosine", "cosine", [](const ValueDiff& v) { return cosine_text(v.cosine); });
  return text;
}

std::string notes_text(const DiffReport& report) {
  const Style& style = stdout_style();
  std::map<std::pair<std::string, std::string>, std::uint64_t> sorts;
  for (const LeafDiff& leaf : report.leaves)
    for (const std::string& noted : leaf.noted) {
      const auto what = noted == "kind"         ? std::pair(leaf.a.typestr, leaf.b.typestr)
                        : noted == "dtype"      ? std::pair(leaf.a.dtype_name, leaf.b.dtype_name)
                        : noted == "random_key" ? std::pair(key_text(leaf.a), key_text(leaf.b))
                                                : std::pair(std::string("values"), std::string());
      ++sorts[what];
    }
  std::string text;
  for (const auto& [what, leaves] : sorts) {
    const std::string words = what.second.empty()
                                  ? "the values differ within the tolerance"
                                  : printable_text(what.first + " -> " + what.second);
    text += fmt::format("{}note        {}: {}{}\n", style.dim, plural(leaves, "leaf"), words,
                        style.reset);
  }
  return text;
}

std::string counts_text(const DiffReport& report) {
  const Style& style = stdout_style();
  const std::string bytes = report.bytes > 0 ? " (" + bytes_text(report.bytes) + " compared)" : "";
  if (report.equal())
    return fmt::format("{}same{}        {}{}\n", style.green, style.reset,
                       plural(report.same, "leaf"), bytes);
  std::string text = fmt::format("{} the same, {} different", count_text(report.same),
                                 count_text(report.different));
  if (report.only_in_a > 0) text += fmt::format(", {} only in A", count_text(report.only_in_a));
  if (report.only_in_b > 0) text += fmt::format(", {} only in B", count_text(report.only_in_b));
  if (report.unreadable > 0) text += fmt::format(", {} unreadable", count_text(report.unreadable));
  if (report.non_finite > 0)
    text += fmt::format(", {} with other NaN or Inf", count_text(report.non_finite));
  return text + bytes + "\n";
}

}  // namespace cairn::cli
