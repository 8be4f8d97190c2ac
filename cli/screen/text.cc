// text.cc -- formats numbers and tables for people.
#include "screen/text.h"

#include "screen/terminal.h"

#include <cairn/cairn.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace cairn::cli {
namespace {

constexpr std::size_t kGap = 2;  // spaces between columns
// a wider cell does not push the cells of other rows to the right
constexpr std::size_t kWidestName = 72;

// Three significant digits and the unit that fits; units[0] is `base` of the plain one.
std::string scaled_text(std::uint64_t number, double base,
                        const std::array<const char*, 6>& units) {
  double value = static_cast<double>(number) / base;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < units.size(); ++unit) value /= base;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return bytes < 1024 ? fmt::format("{} B", bytes) : scaled_text(bytes, 1024, kUnits);
}

std::string compression_text(const CompressionReport& report) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 20U;
  const std::uint64_t as_is = report.raw_bytes + report.incompressible_bytes;
  if (report.compressed_bytes + as_is < kLeast) return "";
  std::string text;
  if (report.compressed_bytes > 0)
    text = "compressed " + bytes_text(report.compressed_bytes) + " to " +
           bytes_text(report.compressed_size);
  if (as_is > 0) text.append(text.empty() ? "" : ", ").append(bytes_text(as_is) + " as is");
  return text + " (" + report.reason + ")";
}

std::string short_count_text(std::uint64_t count) {
  constexpr std::array<const char*, 6> kUnits = {"K", "M", "B", "T", "P", "E"};
  return count < 1000 ? std::to_string(count) : scaled_text(count, 1000, kUnits);
}

std::string count_text(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string duration_text(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", 1000 * seconds);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<std::uint64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string plural(std::uint64_t count, std::string_view noun) {
  if (count != 1 && noun.ends_with("leaf")) return count_text(count) + " leaves";
  return fmt::format("{} {}{}", count_text(count), noun, count == 1 ? "" : "s");
}

std::string wrap_text(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t used = 0;  // columns of the current line
  while (true) {
    const std::size_t start = text.find_first_not_of(" \n");
    if (start == std::string_view::npos) return out;
    text.remove_prefix(start);
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    const std::size_t columns = display_width(word);
    if (used > 0 && used + 1 + columns > width) {
      out.append("\n").append(indent, ' ');
      used = 0;
    }
    out.append(used > 0 ? " " : "").append(word);
    used += columns + (used > 0 ? 1 : 0);
  }
}

std::string strict_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  while (!json.empty()) {
    const std::size_t plain =
        std::min(json.find_first_of(in_string ? "\"\\" : "\"NI-"), json.size());
    out.append(json.substr(0, plain));
    json.remove_prefix(plain);
    std::string_view word = json.substr(0, 1);
    std::string_view written = word;
    if (word == "\"") {
      in_string = !in_string;
    } else if (in_string) {
      written = word = json.substr(0, 2);  // an escape
    } else {
      for (const std::string_view number : {"NaN", "Infinity", "-Infinity"})
        if (json.starts_with(number)) {
          word = number;
          written = "null";
        }
    }
    out.append(written);
    json.remove_prefix(word.size());
  }
  return out;
}

std::string fold_text(std::string_view text, std::size_t indent) {
  constexpr std::size_t kLeastRoom = 20;
  const std::size_t width = terminal_width();
  const std::size_t room = width > indent + kLeastRoom ? width - indent : kLeastRoom;
  if (display_width(text) <= room) return std::string(text);
  std::string out;
  for (const std::string_view piece : fold_pieces(text, room)) {
    if (!out.empty()) out.append("\n").append(indent, ' ');
    out.append(piece);
  }
  return out;
}

void Table::add(std::vector<std::string> cells) {
  for (auto& cell : cells) cell = printable_text(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  widths.reserve(columns_.size());
  for (const auto& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::size_t width = display_width(row[c]);
      if (width <= kWidestName) widths[c] = std::max(widths[c], width);
    }
  return widths;
}

std::vector<std::size_t> Table::widths_in(std::size_t room) const {
  constexpr std::size_t kLeastName = 16;
  auto widths = this->widths();
  const std::size_t others =
      std::accumulate(widths.begin() + 1, widths.end(), kGap * (widths.size() - 1));
  if (widths[0] + others > room)
    widths[0] = std::max(room > others ? room - others : 0, std::min(kLeastName, widths[0]));
  return widths;
}

void Table::drop_empty() {
  for (std::size_t c = columns_.size(); c-- > 0;) {
    if (!std::all_of(rows_.begin(), rows_.end(), [&](const auto& row) { return row[c].empty(); }))
      continue;
    columns_.erase(columns_.begin() + static_cast<std::ptrdiff_t>(c));
    for (auto& row : rows_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

std::size_t Table::width() const {
  const auto columns = widths();
  return std::accumulate(columns.begin(), columns.end(), kGap * (columns.size() - 1));
}

std::vector<std::string> Table::fit(std::size_t width) {
  std::vector<std::string> dropped;
  while (columns_.size() > 2 && this->width() > width) {
    dropped.insert(dropped.begin(), columns_.back().title);
    columns_.pop_back();
  }
  return dropped;
}

std::string Table::text(bool with_titles) const {
  std::string out;
  write(with_titles, [&](std::string_view line) { out += line; });
  return out;
}

void Table::write(bool with_titles, const std::function<void(std::string_view)>& line) const {
  const std::size_t room = terminal_width();
  if (columns_.empty()) return;  // all were empty
  const auto widths = widths_in(room);
  const std::size_t full_width =
      std::accumulate(widths.begin() + 1, widths.end(), kGap * (widths.size() - 1));
  const Style& style = stdout_style();
  std::string out;
  const auto add_cell = [&](std::size_t c, std::string_view cell, std::string_view paint) {
    const std::size_t width = display_width(cell);
    const std::size_t space = widths[c] > width ? widths[c] - width : 0;
    const bool last = c + 1 == columns_.size();
    if (columns_[c].align == Align::kRight) out.append(space, ' ');
    out.append(paint).append(cell).append(paint.empty() ? "" : style.reset);
    if (columns_[c].align == Align::kLeft && !last) out.append(space, ' ');
    out.append(last ? 0 : kGap, ' ');
  };
  const auto end_line = [&] {
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
    line(out);
    out.clear();
  };
  if (with_titles) {
    for (std::size_t c = 0; c < columns_.size(); ++c) add_cell(c, columns_[c].title, style.dim);
    end_line();
  }
  for (const auto& row : rows_) {
    const bool folds = columns_.size() > 1 && display_width(row[0]) + full_width > room;
    if (folds)
      for (const std::string_view piece : fold_pieces(row[0], room))
        line(fmt::format("{}{}{}\n", columns_[0].style, piece,
                         columns_[0].style.empty() ? std::string_view() : style.reset));
    for (std::size_t c = 0; c < columns_.size(); ++c)
      add_cell(c, folds && c == 0 ? std::string_view() : std::string_view(row[c]),
               columns_[c].style);
    end_line();
  }
}

}  // namespace cairn::cli
