// preview.cc -- prints an array as NumPy does. It shows, and reads, only the corners of a long
// array.
#include <cairn/inspect.h>

#include <cairn/array/box.h>
#include <cairn/tools/report/number_text.h>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kLineWidth = 75;         // including the closing brackets
constexpr std::int64_t kMostCorners = 10'000;  // elements shown of an array with many dimensions

// The elements to show: all of a dimension, or `edge` at each of its ends.
struct Excerpt {
  std::int64_t edge = 0;  // 0: shows everything
  Shape full;             // of the array
  Shape shape;            // of the shown elements

  [[nodiscard]] bool elided(std::size_t d) const { return shape[d] != full[d]; }
};

Excerpt make_excerpt(const Shape& full, std::size_t max_items) {
  Excerpt excerpt{0, full, full};
  if (static_cast<std::uint64_t>(element_count(full)) <= max_items) return excerpt;
  for (excerpt.edge = 3; excerpt.edge > 0; --excerpt.edge) {
    excerpt.shape = full;
    for (auto& n : excerpt.shape)
      if (n > 2 * excerpt.edge) n = 2 * excerpt.edge;
    if (element_count(excerpt.shape) <= kMostCorners) return excerpt;
  }
  // dozens of dimensions: even the smallest corners are too many elements
  excerpt.shape.assign(full.size(), 0);
  return excerpt;
}

// Calls f(box in the array, box in the excerpt) for each corner.
template <class F>
void for_each_corner(const Excerpt& excerpt, F f) {
  const std::size_t rank = excerpt.full.size();
  std::vector<bool> at_end(rank, false);
  for (;;) {
    Box from{std::vector<std::int64_t>(rank, 0), excerpt.shape};
    Box to = from;
    for (std::size_t d = 0; d < rank; ++d) {
      if (!excerpt.elided(d)) continue;
      from.shape[d] = to.shape[d] = excerpt.edge;
      if (!at_end[d]) continue;
      from.origin[d] = excerpt.full[d] - excerpt.edge;
      to.origin[d] = excerpt.edge;
    }
    f(from, to);
    std::size_t d = 0;  // advance to the next combination of ends
    while (d < rank && (!excerpt.elided(d) || at_end[d])) at_end[d++] = false;
    if (d == rank) return;
    at_end[d] = true;
  }
}

// Prints the elements of one row, wrapped after `indent` spaces. The caller prints the brackets of
// the outer dimensions.
class Printer {
 public:
  Printer(const Excerpt& excerpt, std::vector<std::string> texts)
      : excerpt_(excerpt), texts_(std::move(texts)), rank_(excerpt.shape.size()) {}

  std::string print() {
    const auto columns = static_cast<std::size_t>(excerpt_.shape.back());
    std::vector<std::int64_t> row(rank_ - 1, 0);
    for (std::size_t at = 0; at < texts_.size(); at += columns) {
      open_row(row, at == 0);
      append_row(at, columns);
      close_row(row);
    }
    out_ += ']';
    return std::move(out_);
  }

 private:
  // Prints the brackets of the dimensions that begin here, and "..." if elements before this row
  // are left out.
  void open_row(const std::vector<std::int64_t>& row, bool first) {
    std::size_t begins = rank_ - 1;  // the outermost dimension that begins with this row
    while (begins > 0 && row[begins - 1] == 0) --begins;
    if (!first) {
      const std::size_t d = begins - 1;  // the dimension that continues
      const std::string gap(rank_ - 1 - d, '\n');
      out_ += gap;
      if (excerpt_.elided(d) && row[d] == excerpt_.edge)
        out_.append(d + 1, ' ').append("...").append(gap);
      out_.append(begins, ' ');
    }
    out_.append(rank_ - begins, '[');
  }

  void append_row(std::size_t at, std::size_t columns) {
    std::size_t width = rank_;
    const auto add = [&](std::string_view word, bool first) {
      if (!first && width + 1 + word.size() + rank_ > kLineWidth) {
        while (out_.back() == ' ') out_.pop_back();
        out_.append("\n").append(rank_, ' ');
        width = rank_;
        first = true;
      }
      out_.append(first ? "" : " ").append(word);
      width += word.size() + (first ? 0 : 1);
    };
    for (std::size_t c = 0; c < columns; ++c) {
      if (c > 0 && excerpt_.elided(rank_ - 1) && c == static_cast<std::size_t>(excerpt_.edge))
        add("...", false);
      add(texts_[at + c], c == 0);
    }
  }

  // Closes the dimensions that end with this row and moves to the next row. print() closes the
  // outermost bracket.
  void close_row(std::vector<std::int64_t>& row) {
    for (std::size_t d = rank_ - 1; d > 0; --d) {
      out_ += ']';
      if (++row[d - 1] < excerpt_.shape[d - 1]) return;
      row[d - 1] = 0;
    }
  }

  const Excerpt& excerpt_;
  std::vector<std::string> texts_;
  std::size_t rank_;
  std::string out_;
};

std::string print(const Excerpt& excerpt, const ArrayView& shown) {
  if (excerpt.full.empty()) return element_texts(shown, 17).front();
  if (element_count(excerpt.full) == 0) return "[]";
  if (element_count(excerpt.shape) == 0) return "[...]";
  return Printer(excerpt, element_texts(shown, 8)).print();
}

}  // namespace

std::string preview_array(const ArrayView& array, std::size_t max_items) {
  const Excerpt excerpt = make_excerpt(array.shape, max_items);
  Array shown = Array::allocate(array.dtype, array.element_size, excerpt.shape);
  if (element_count(excerpt.shape) != 0)
    for_each_corner(excerpt, [&](const Box& from, const Box& to) {
      copy_elements(subview(array, from), subview(shown.mutable_view(), to));
    });
  return print(excerpt, shown.view());
}

std::string preview_tensor(const Checkpoint& checkpoint, std::size_t index, const SliceSpec& slice,
                           std::size_t max_items) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  // Integer-indexed dimensions have one element. They are read and then dropped, which moves no
  // elements.
  const Excerpt stored = make_excerpt(slice.box.shape, max_items);
  Array shown = Array::allocate(tensor.dtype, tensor.element_size, stored.shape);
  std::vector<ReadRequest> requests;
  if (element_count(stored.shape) != 0)
    for_each_corner(stored, [&](Box from, const Box& to) {
      for (std::size_t d = 0; d < from.rank(); ++d) from.origin[d] += slice.box.origin[d];
      requests.push_back({index, std::move(from), subview(shown.mutable_view(), to)});
    });
  checkpoint.read(requests, {});
  Excerpt excerpt = make_excerpt(slice.shape, max_items);
  excerpt.edge = stored.edge;
  ArrayView view = shown.view();
  view.shape = excerpt.shape;
  view.strides = c_strides(view.shape, view.element_size);
  return print(excerpt, view);
}

}  // namespace cairn::inline v0
