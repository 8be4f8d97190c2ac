// text.h -- formats numbers and tables for people.
#pragma once

#include <cairn/cairn.h>

#include <cairn/compression.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::cli {

std::string bytes_text(std::uint64_t bytes);  // "1.25 GiB", "17 B"
std::string count_text(std::uint64_t count);  // "1,234,567"
// "96.2 M", "1.25 B" (a thousand million), "512"
std::string short_count_text(std::uint64_t count);
std::string duration_text(double seconds);  // "40 ms", "1.4 s", "2:05", "1:02:05"
// "compressed 2.00 GiB to 1.56 GiB, 1.00 GiB as is (REASON)". "" if nothing was decided, or about
// less than a MiB.
std::string compression_text(const CompressionReport& report);
// "1 tensor", "2 tensors", "3 leaves"
std::string plural(std::uint64_t count, std::string_view noun);
// The name of a leaf in a report: "item/name" if there are several items, otherwise the name.
template <class Leaf>
std::string full_name(const Leaf& leaf) {
  return leaf.item ? *leaf.item + "/" + leaf.name : leaf.name;
}
// JSON text with null in place of NaN, Infinity and -Infinity.
std::string strict_json(std::string_view json);
// The text in lines of at most `width` columns, the second and further ones indented by `indent`
// spaces. Breaks between words only. Line breaks of the text count as spaces.
std::string wrap_text(std::string_view text, std::size_t width, std::size_t indent = 0);

// Breaks a text that does not fit the terminal beside its indent into lines, the second and further
// ones indented by `indent` spaces. Breaks after a space or a separator of names and paths where
// there is one, and keeps every character. Without a terminal, the text stays one line.
std::string fold_text(std::string_view text, std::size_t indent);

enum class Align { kLeft, kRight };
struct Column {
  std::string title;
  Align align = Align::kLeft;
  std::string_view style;  // escape sequence; "" for none
};

// Rows of cells in columns that are wide enough for them. The table calls printable_text() on each
// cell.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells);
  // Drops columns that are empty in every row.
  void drop_empty();
  // Drops columns from the right until the rest fits into `width`, but never the first two. Returns
  // the titles of the dropped columns.
  std::vector<std::string> fit(std::size_t width);
  // Columns of a line.
  [[nodiscard]] std::size_t width() const;
  [[nodiscard]] std::string text(bool with_titles) const;
  // Passes the lines of text() one by one, because a table may have a million of them. On a terminal
  // a name (the first cell) for which a line is too narrow has lines of its own.
  void write(bool with_titles, const std::function<void(std::string_view)>& line) const;
  [[nodiscard]] bool empty() const { return rows_.empty(); }

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;
  // The columns' widths in a line of `room` columns: the first column gives way.
  [[nodiscard]] std::vector<std::size_t> widths_in(std::size_t room) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cairn::cli
