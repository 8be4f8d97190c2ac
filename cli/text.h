// text.h -- numbers and tables as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

std::string bytes_text(std::uint64_t bytes);  // "1.25 GiB", "17 B"
std::string count_text(std::uint64_t count);  // "1,234,567"
std::string duration_text(double seconds);    // "40 ms", "1.4 s", "2:05", "1:02:05"
// "1 tensor", "2 tensors", "3 leaves"
std::string plural(std::uint64_t count, std::string_view noun);
// Of what a report says about a leaf: "item/name" where there are several items, else the name.
template <class Leaf>
std::string full_name(const Leaf& leaf) {
  return leaf.item ? *leaf.item + "/" + leaf.name : leaf.name;
}
// How many columns a UTF-8 text takes, one a character.
std::size_t display_width(std::string_view text);

enum class Align { kLeft, kRight };
struct Column {
  std::string title;
  Align align = Align::kLeft;
  std::string_view style;  // escape sequence; "" for none
};

// Rows of cells under columns wide enough for them. Cells are made printable().
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells);
  // Drops columns that are empty in every row.
  void drop_empty();
  // Drops columns from the right until the rest fits into `width`, all but the first two; returns
  // the titles dropped.
  std::vector<std::string> fit(std::size_t width);
  [[nodiscard]] std::string text(bool with_titles) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cairn::cli
