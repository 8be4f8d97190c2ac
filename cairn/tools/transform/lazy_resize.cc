// lazy_resize.cc -- arrays with rows added or taken away at the end of an axis, and arrays of one
// number.
#include <cairn/tools/transform/lazy_array.h>
#include <cairn/tools/transform/lazy_pieces.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace cairn::inline v0 {
namespace {

Shape resized_shape(Shape shape, std::size_t axis, std::int64_t size) {
  shape[axis] = size;
  (void)element_count(shape);
  return shape;
}

Box with_range(Box box, std::size_t axis, std::int64_t begin, std::int64_t end) {
  box.origin[axis] = begin;
  box.shape[axis] = end - begin;
  return box;
}

class Padded final : public LazyArray {
 public:
  Padded(LazyPtr array, std::size_t axis, std::int64_t size)
      : LazyArray(array->dtype(), resized_shape(array->shape(), axis, size), array->chunk_shape()),
        array_(std::move(array)),
        axis_(axis) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    const std::int64_t begin = box.origin[axis_];
    const std::int64_t end = begin + box.shape[axis_];
    const std::int64_t border = std::clamp(array_->shape()[axis_], begin, end);
    const auto part_of = [&](const Box& part) {
      return subview(out, relative_to(part, box.origin));
    };
    if (border < end) {
      const Bytes zero(out.element_size);
      fill_elements(zero, part_of(with_range(box, axis_, border, end)));
    }
    if (begin < border) {
      const Box stored = with_range(box, axis_, begin, border);
      array_->read(stored, part_of(stored), reads);
    }
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return fmt::format("pad({}, axis {}, {})", array_->text(source), axis_, shape()[axis_]);
  }

 private:
  LazyPtr array_;
  std::size_t axis_;
};

class Trimmed final : public LazyArray {
 public:
  Trimmed(LazyPtr array, std::size_t axis, std::int64_t size, bool any_values)
      : LazyArray(array->dtype(), resized_shape(array->shape(), axis, size),
                  resized_chunk(*array, axis, size)),
        array_(std::move(array)),
        axis_(axis),
        any_values_(any_values) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    if (!any_values_) std::call_once(checked_, [&] { check_rest(reads.context); });
    array_->read(box, out, reads);
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return fmt::format("trim({}, axis {}, {})", array_->text(source), axis_, shape()[axis_]);
  }

 private:
  static Shape resized_chunk(const LazyArray& array, std::size_t axis, std::int64_t size) {
    Shape chunk = array.chunk_shape();
    if (axis < chunk.size()) chunk[axis] = std::min(chunk[axis], size);
    return chunk;
  }

  // Throws unless all that is cut off is zero. A negative zero is one.
  void check_rest(const LazyContext& context) const {
    const std::int64_t size = shape()[axis_];
    const Box rest = with_range(Box::whole(array_->shape()), axis_, size, array_->shape()[axis_]);
    const auto cost = [&](const Box& part) {
      return static_cast<std::uint64_t>(element_count(part.shape)) * (dtype_size(dtype()) + 1);
    };
    in_pieces(rest, context.memory, cost, [&](const Box& piece) {
      const Array found = read_piece(*array_, piece, context);
      Array is_set = Array::allocate(DType::kBool, piece.shape);
      cast_elements(found.view(), is_set.mutable_view());
      const ByteView flags = is_set.bytes();
      const auto at = std::ranges::find_if(flags, [](std::byte b) { return b != std::byte{0}; });
      if (at == flags.end()) return;
      std::int64_t inner = 1;
      for (std::size_t d = axis_ + 1; d < piece.shape.size(); ++d) inner *= piece.shape[d];
      const std::int64_t row =
          piece.origin[axis_] + (at - flags.begin()) / inner % piece.shape[axis_];
      throw Error(
          Code::kFailedPrecondition,
          fmt::format("{}: row {} of axis {} is not zero, so it cannot be cut off ({} of "
                      "{} rows stay); allow it with 'trim' in the rule, or as its map says",
                      array_->text(context.source), row, axis_, size, array_->shape()[axis_]));
    });
  }

  LazyPtr array_;
  std::size_t axis_;
  bool any_values_;
  mutable std::once_flag checked_;
};

class Filled final : public LazyArray {
 public:
  Filled(DType dtype, const Shape& shape, double number)
      : LazyArray(dtype, shape, {}), element_(dtype_size(dtype)), number_(number) {
    const Array wide = Array::from<double>({number_}, {});
    cast_elements(wide.view(), make_view(MutableByteView(element_), dtype, {}));
  }
  void read(const Box& /*box*/, const MutableArrayView& out, LazyReads& /*reads*/) const override {
    fill_elements(element_, out);
  }
  void add_sources(std::vector<std::size_t>& /*sources*/) const override {}
  [[nodiscard]] std::string text(const Checkpoint& /*source*/) const override {
    return fmt::format("{}", number_);
  }

 private:
  Bytes element_;
  double number_;
};

}  // namespace

LazyPtr lazy_resize(LazyPtr array, std::size_t axis, std::int64_t size, bool trim_any_values) {
  const Shape& shape = array->shape();
  if (axis >= shape.size())
    invalid_argument(fmt::format("axis {} of an array of {} dimensions", axis, shape.size()));
  if (size < 1) invalid_argument(fmt::format("a size of {} along axis {}", size, axis));
  if (size == shape[axis]) return array;
  if (size > shape[axis]) return std::make_shared<Padded>(std::move(array), axis, size);
  return std::make_shared<Trimmed>(std::move(array), axis, size, trim_any_values);
}

LazyPtr lazy_fill(DType dtype, const Shape& shape, double number) {
  return std::make_shared<Filled>(dtype, shape, number);
}

}  // namespace cairn::inline v0
