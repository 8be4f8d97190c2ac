// box.cc -- box arithmetic and views.
#include <cairn/array/box.h>

#include <cairn/error.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace cairn::inline v0 {
namespace {

void check_same_rank(std::size_t a, std::size_t b) {
  if (a != b)
    throw Error(
        Code::kInvalidArgument,
        "box rank " + std::to_string(b) + " does not match array or box rank " + std::to_string(a));
}

void check_well_formed(const Box& box) {
  if (box.origin.size() != box.shape.size())
    throw Error(Code::kInvalidArgument, "a box has " + std::to_string(box.origin.size()) +
                                            " origins but " + std::to_string(box.shape.size()) +
                                            " extents");
}

// Returns whether `extent` elements from `origin` lie below `limit`. The arithmetic cannot
// overflow.
bool fits(std::int64_t origin, std::int64_t extent, std::int64_t limit) {
  return origin >= 0 && extent >= 0 && extent <= limit && origin <= limit - extent;
}

// Returns one past the last index of dimension d, or the largest integer if that overflows.
std::int64_t end_of(const Box& box, std::size_t d) {
  std::int64_t end = 0;
  return __builtin_add_overflow(box.origin[d], box.shape[d], &end)
             ? std::numeric_limits<std::int64_t>::max()
             : end;
}

template <class Byte>
BasicArrayView<Byte> sub(const BasicArrayView<Byte>& view, const Box& box) {
  check_inside(box, view.shape);
  BasicArrayView<Byte> part = view;
  part.shape = box.shape;
  if (box.empty()) return part;  // the origin of an empty box may lie one past the end
  for (std::size_t d = 0; d < box.rank(); ++d) part.data += box.origin[d] * view.strides[d];
  return part;
}

template <class Byte>
BasicArrayView<Byte> make(std::span<Byte> bytes, DType dtype, Shape shape) {
  const std::size_t size = dtype_size(dtype);
  if (dtype == DType::kOpaque)
    throw Error(Code::kInvalidArgument, "an opaque view needs an element size");
  const auto count = static_cast<std::size_t>(element_count(shape));
  if (bytes.size() % size != 0 || bytes.size() / size != count)
    throw Error(Code::kInvalidArgument, std::to_string(bytes.size()) + " bytes do not hold shape " +
                                            shape_text(shape) + " of " +
                                            std::string(dtype_name(dtype)));
  auto strides = c_strides(shape, size);
  return {.data = bytes.data(),
          .dtype = dtype,
          .element_size = size,
          .shape = std::move(shape),
          .strides = std::move(strides)};
}

// Appends the box that begins at element `begin` and covers as many whole sub-arrays of one
// dimension as fit before `end`. Returns the number of its elements.
std::int64_t add_box(std::span<const std::int64_t> shape, std::int64_t begin, std::int64_t end,
                     std::vector<Box>& boxes) {
  const std::size_t rank = shape.size();
  Box box{std::vector<std::int64_t>(rank, 0), Shape(rank, 1)};
  std::int64_t rest = begin;
  for (std::size_t d = rank; d-- > 0;) {
    box.origin[d] = rest % shape[d];
    rest /= shape[d];
  }
  // Grow from the innermost dimension outwards, while the run starts at the beginning of the
  // dimension and covers all of it.
  std::int64_t stride = 1;  // elements of one step along d
  for (std::size_t d = rank; d-- > 0;) {
    box.shape[d] = std::min(shape[d] - box.origin[d], (end - begin) / stride);
    if (box.origin[d] != 0 || box.shape[d] != shape[d] || d == 0) {
      stride *= box.shape[d];
      break;
    }
    stride *= shape[d];
  }
  boxes.push_back(std::move(box));
  return stride;
}

}  // namespace

std::optional<Box> intersect(const Box& a, const Box& b) {
  check_well_formed(a);
  check_well_formed(b);
  check_same_rank(a.rank(), b.rank());
  Box shared = a;
  for (std::size_t d = 0; d < a.rank(); ++d) {
    const std::int64_t begin = std::max(a.origin[d], b.origin[d]);
    const std::int64_t end = std::min(end_of(a, d), end_of(b, d));
    if (end <= begin) return std::nullopt;
    shared.origin[d] = begin;
    shared.shape[d] = end - begin;
  }
  return shared;
}

Box relative_to(Box box, std::span<const std::int64_t> origin) {
  check_same_rank(origin.size(), box.origin.size());
  for (std::size_t d = 0; d < origin.size(); ++d) box.origin[d] -= origin[d];
  return box;
}

bool contains(const Box& outer, const Box& inner) {
  check_well_formed(outer);
  check_well_formed(inner);
  check_same_rank(outer.rank(), inner.rank());
  for (std::size_t d = 0; d < outer.rank(); ++d)
    if (inner.origin[d] < outer.origin[d] || inner.shape[d] < 0 ||
        end_of(inner, d) > end_of(outer, d))
      return false;
  return true;
}

void check_inside(const Box& box, std::span<const std::int64_t> shape) {
  check_well_formed(box);
  check_same_rank(shape.size(), box.rank());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (!fits(box.origin[d], box.shape[d], shape[d]))
      throw Error(Code::kOutOfRange, "dimension " + std::to_string(d) + " of box " + box_text(box) +
                                         " is outside shape " + shape_text(shape));
}

std::string box_text(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.rank(); ++d) {
    // Adds as unsigned numbers: the box may be invalid, and its end may overflow.
    const auto end = static_cast<std::int64_t>(static_cast<std::uint64_t>(box.origin[d]) +
                                               static_cast<std::uint64_t>(box.shape[d]));
    if (d != 0) text += ", ";
    text += std::to_string(box.origin[d]) + ":" + std::to_string(end);
  }
  return text + "]";
}

ArrayView subview(const ArrayView& view, const Box& box) { return sub(view, box); }
MutableArrayView subview(const MutableArrayView& view, const Box& box) { return sub(view, box); }

ArrayView as_const(const MutableArrayView& view) {
  return {.data = view.data,
          .dtype = view.dtype,
          .element_size = view.element_size,
          .shape = view.shape,
          .strides = view.strides};
}

ArrayView make_view(ByteView bytes, DType dtype, Shape shape) {
  return make(bytes, dtype, std::move(shape));
}
MutableArrayView make_view(MutableByteView bytes, DType dtype, Shape shape) {
  return make(bytes, dtype, std::move(shape));
}

std::vector<Box> boxes_of_run(std::span<const std::int64_t> shape, std::int64_t begin,
                              std::int64_t end) {
  std::vector<Box> boxes;
  while (begin < end) begin += add_box(shape, begin, end, boxes);
  return boxes;
}

}  // namespace cairn::inline v0
