// text.cc -- formats numbers and tables for people.
#include "text.h"

#include "terminal.h"

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

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
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

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
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

void Table::drop_empty() {
  for (std::size_t c = columns_.size(); c-- > 0;) {
    if (!std::all_of(rows_.begin(), rows_.end(), [&](const auto& row) { return row[c].empty(); }))
      continue;
    columns_.erase(columns_.begin() + static_cast<std::ptrdiff_t>(c));
    for (auto& row : rows_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

std::vector<std::string> Table::fit(std::size_t width) {
  std::vector<std::string> dropped;
  auto columns = widths();
  while (columns.size() > 2 &&
         std::accumulate(columns.begin(), columns.end(), kGap * (columns.size() - 1)) > width) {
    dropped.insert(dropped.begin(), columns_.back().title);
    columns_.pop_back();
    columns.pop_back();
  }
  return dropped;
}

std::string Table::text(bool with_titles) const {
  const auto widths = this->widths();
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
  };
  if (with_titles) {
    for (std::size_t c = 0; c < columns_.size(); ++c) add_cell(c, columns_[c].title, style.dim);
    end_line();
  }
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < columns_.size(); ++c) add_cell(c, row[c], columns_[c].style);
    end_line();
  }
  return out;
}

}  // namespace cairn::cli
