// lazy_array.cc -- arrays whose elements are only moved: maps a box of the whole to boxes of the
// parts and views of the destination.
#include <cairn/tools/transform/lazy_array.h>

#include <cairn/base/errors.h>
#include <cairn/tools/transform/scratch_arrays.h>

#include <cairn/array/box.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

std::string list_text(const std::string& name, const std::vector<LazyPtr>& arrays,
                      const Checkpoint& source) {
  std::string text = name + "(";
  for (const LazyPtr& array : arrays)
    text += (&array == arrays.data() ? "" : ", ") + array->text(source);
  return text + ")";
}

template <class T>
void drop_axis(std::vector<T>& values, std::size_t axis) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(axis));
}
template <class T>
void add_axis(std::vector<T>& values, std::size_t axis, T value) {
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(axis), value);
}

void check_axis(std::size_t axis, std::size_t rank) {
  if (axis >= rank)
    invalid_argument("axis " + std::to_string(axis) + " of an array of " + std::to_string(rank) +
                     " dimensions");
}

class Stored final : public LazyArray {
 public:
  Stored(const TensorInfo& tensor, std::size_t index)
      : LazyArray(tensor.dtype, tensor.shape, tensor.chunk_shape), index_(index) {}
  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    reads.direct.push_back({index_, box, out});
  }
  void add_sources(std::vector<std::size_t>& sources) const override { sources.push_back(index_); }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return source.tensors()[index_].name;
  }

 private:
  std::size_t index_;
};

template <class T>
std::vector<T> permuted(const std::vector<T>& values, const std::vector<std::size_t>& axes) {
  std::vector<T> out;
  if (!values.empty())
    for (const std::size_t axis : axes) out.push_back(values[axis]);
  return out;
}

class Transposed final : public LazyArray {
 public:
  Transposed(LazyPtr array, std::vector<std::size_t> axes)
      : LazyArray(array->dtype(), permuted(array->shape(), axes),
                  permuted(array->chunk_shape(), axes)),
        array_(std::move(array)),
        axes_(std::move(axes)),
        inverse_(axes_.size()) {
    for (std::size_t d = 0; d < axes_.size(); ++d) inverse_[axes_[d]] = d;
  }
  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    MutableArrayView turned = out;
    turned.shape = permuted(out.shape, inverse_);
    turned.strides = permuted(out.strides, inverse_);
    array_->read({permuted(box.origin, inverse_), permuted(box.shape, inverse_)}, turned, reads);
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return list_text("transpose", {array_}, source);
  }

 private:
  LazyPtr array_;
  std::vector<std::size_t> axes_, inverse_;
};

Shape joined_shape(const std::vector<LazyPtr>& arrays, std::size_t axis) {
  if (arrays.empty()) invalid_argument("no arrays to concatenate");
  Shape shape = arrays[0]->shape();
  check_axis(axis, shape.size());
  for (std::size_t i = 1; i < arrays.size(); ++i) {
    const Shape& other = arrays[i]->shape();
    bool fits = other.size() == shape.size();
    for (std::size_t d = 0; fits && d < shape.size(); ++d) fits = d == axis || other[d] == shape[d];
    if (!fits)
      invalid_argument("arrays of shapes " + shape_text(arrays[0]->shape()) + " and " +
                       shape_text(other) + " do not match along axis " + std::to_string(axis));
    if (arrays[i]->dtype() != arrays[0]->dtype())
      invalid_argument("arrays of types " + std::string(dtype_name(arrays[0]->dtype())) + " and " +
                       std::string(dtype_name(arrays[i]->dtype())) +
                       " cannot be joined: cast them first");
    if (__builtin_add_overflow(shape[axis], other[axis], &shape[axis]))
      invalid_argument("the joined arrays are too large");
  }
  (void)element_count(shape);
  return shape;
}

class Concatenated final : public LazyArray {
 public:
  // `operation`: the rule that joins the arrays, for the text.
  Concatenated(std::vector<LazyPtr> arrays, std::size_t axis, std::string operation,
               Shape chunk_shape)
      : LazyArray(arrays.at(0)->dtype(), joined_shape(arrays, axis), std::move(chunk_shape)),
        arrays_(std::move(arrays)),
        axis_(axis),
        operation_(std::move(operation)) {}
  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    std::int64_t start = 0;  // of the current array, along the axis
    for (const LazyPtr& array : arrays_) {
      const std::int64_t end = start + array->shape()[axis_];
      const std::int64_t first = std::max(start, box.origin[axis_]);
      const std::int64_t last = std::min(end, box.origin[axis_] + box.shape[axis_]);
      if (first < last) {
        Box part = box;
        part.shape[axis_] = last - first;
        Box within{std::vector<std::int64_t>(box.rank(), 0), part.shape};
        within.origin[axis_] = first - box.origin[axis_];
        part.origin[axis_] = first - start;
        array->read(part, subview(out, within), reads);
      }
      start = end;
    }
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    for (const LazyPtr& array : arrays_) array->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return list_text(operation_, arrays_, source);
  }

 private:
  std::vector<LazyPtr> arrays_;
  std::size_t axis_;
  std::string operation_;
};

// A good shape to cut `count` stacked arrays by: their own chunks, else as many whole arrays as are
// not much, so that no array is read twice.
Shape stacked_chunk(const LazyArray& first, std::size_t axis, std::size_t count) {
  constexpr std::int64_t kMuch = std::int64_t{64} << 20U;  // bytes
  if (!first.chunk_shape().empty()) return first.chunk_shape();
  const std::int64_t bytes =
      element_count(first.shape()) * static_cast<std::int64_t>(dtype_size(first.dtype()));
  const auto n = static_cast<std::int64_t>(count);
  if (bytes <= kMuch / n) return {};
  Shape chunk = first.shape();
  chunk[axis] = std::clamp<std::int64_t>(kMuch / std::max<std::int64_t>(bytes, 1), 1, n);
  return chunk;
}

Shape with_axis(Shape shape, std::size_t axis, std::int64_t extent) {
  add_axis(shape, axis, extent);
  return shape;
}
Shape without_axis(Shape shape, std::size_t axis) {
  if (!shape.empty()) drop_axis(shape, axis);
  return shape;
}

// An array with an additional axis of extent 1.
class Expanded final : public LazyArray {
 public:
  Expanded(LazyPtr array, std::size_t axis)
      : LazyArray(array->dtype(), with_axis(array->shape(), axis, 1),
                  array->chunk_shape().size() == array->shape().size()
                      ? with_axis(array->chunk_shape(), axis, 1)
                      : Shape()),
        array_(std::move(array)),
        axis_(axis) {}
  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    Box inner = box;
    MutableArrayView flat = out;
    drop_axis(inner.origin, axis_);
    drop_axis(inner.shape, axis_);
    drop_axis(flat.shape, axis_);
    drop_axis(flat.strides, axis_);
    array_->read(inner, flat, reads);
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return array_->text(source);
  }

 private:
  LazyPtr array_;
  std::size_t axis_;
};

Shape clipped(Shape chunk, const Shape& shape) {
  for (std::size_t d = 0; d < chunk.size() && d < shape.size(); ++d)
    chunk[d] = std::min(chunk[d], shape[d]);
  return chunk;
}

Shape sliced_shape(Shape shape, std::size_t axis, std::int64_t begin, std::int64_t count) {
  check_axis(axis, shape.size());
  if (begin < 0 || count < 0 || begin > shape[axis] || count > shape[axis] - begin)
    invalid_argument("the slice is outside of shape " + shape_text(shape));
  shape[axis] = count;
  return shape;
}

class Sliced final : public LazyArray {
 public:
  Sliced(LazyPtr array, std::size_t axis, std::int64_t begin, std::int64_t count)
      : LazyArray(array->dtype(), sliced_shape(array->shape(), axis, begin, count),
                  clipped(array->chunk_shape(), sliced_shape(array->shape(), axis, begin, count))),
        array_(std::move(array)),
        axis_(axis),
        begin_(begin) {}
  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    Box inner = box;
    inner.origin[axis_] += begin_;
    array_->read(inner, out, reads);
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return array_->text(source) + "[" + (axis_ > 0 ? "axis " + std::to_string(axis_) + ", " : "") +
           std::to_string(begin_) + ":" + std::to_string(begin_ + shape()[axis_]) + "]";
  }

 private:
  LazyPtr array_;
  std::size_t axis_;
  std::int64_t begin_;
};

// An array without one of its axes, which has extent 1.
class Squeezed final : public LazyArray {
 public:
  Squeezed(LazyPtr array, std::size_t axis)
      : LazyArray(array->dtype(), without_axis(array->shape(), axis),
                  without_axis(array->chunk_shape(), axis)),
        array_(std::move(array)),
        axis_(axis) {}
  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    Box inner = box;
    MutableArrayView wide = out;
    add_axis(inner.origin, axis_, std::int64_t{0});
    add_axis(inner.shape, axis_, std::int64_t{1});
    add_axis(wide.shape, axis_, std::int64_t{1});
    add_axis(wide.strides, axis_, std::int64_t{0});
    array_->read(inner, wide, reads);
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return array_->text(source);
  }

 private:
  LazyPtr array_;
  std::size_t axis_;
};

}  // namespace

std::optional<Array> LazyReads::stage(DType dtype, const Shape& shape) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(element_count(shape)) * dtype_size(dtype);
  if (bytes > context.memory / 2 || staged > context.memory / 2 - bytes) return std::nullopt;
  staged += bytes;
  return Array::allocate(dtype, shape);
}

void LazyReads::run() {
  if (!direct.empty() && context.scratch != nullptr)
    context.scratch->read(direct, context.executor);
  else if (!direct.empty())
    context.source.read(direct, {});
  for (const auto& compute : computed) compute();
  direct.clear();
  computed.clear();
  staged = 0;
}

void describe_as(const LazyArray& array, TensorInfo& tensor) {
  if (array.shape() != tensor.shape) {
    tensor.sharding = "";
    tensor.typestr = "np.ndarray";
  }
  tensor.dtype = array.dtype();
  tensor.dtype_name = std::string(dtype_name(tensor.dtype));
  tensor.element_size = dtype_size(tensor.dtype);
  tensor.shape = array.shape();
  tensor.chunk_shape = array.chunk_shape();
  tensor.nbytes = static_cast<std::uint64_t>(element_count(tensor.shape)) * tensor.element_size;
}

LazyPtr lazy_stored(const Checkpoint& source, std::size_t index) {
  return std::make_shared<Stored>(source.tensors()[index], index);
}

LazyPtr lazy_transpose(LazyPtr array, std::vector<std::size_t> axes) {
  std::vector<std::size_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = axes.size() == array->shape().size();
  for (std::size_t d = 0; permutation && d < sorted.size(); ++d) permutation = sorted[d] == d;
  if (!permutation)
    invalid_argument("the axes are not a permutation of those of an array of shape " +
                     shape_text(array->shape()));
  return std::make_shared<Transposed>(std::move(array), std::move(axes));
}

LazyPtr lazy_concatenate(std::vector<LazyPtr> arrays, std::size_t axis) {
  Shape chunk = arrays.empty() ? Shape() : arrays[0]->chunk_shape();
  return std::make_shared<Concatenated>(std::move(arrays), axis, "concatenate", std::move(chunk));
}

LazyPtr lazy_stack(std::vector<LazyPtr> arrays, std::size_t axis) {
  for (LazyPtr& array : arrays) {
    check_axis(axis, array->shape().size() + 1);
    array = std::make_shared<Expanded>(std::move(array), axis);
  }
  Shape chunk = arrays.empty() ? Shape() : stacked_chunk(*arrays[0], axis, arrays.size());
  return std::make_shared<Concatenated>(std::move(arrays), axis, "stack", std::move(chunk));
}

LazyPtr lazy_slice(LazyPtr array, std::size_t axis, std::int64_t begin, std::int64_t count) {
  return std::make_shared<Sliced>(std::move(array), axis, begin, count);
}

std::size_t axis_index(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n)
    invalid_argument("axis " + std::to_string(axis) + " of an array of " + std::to_string(rank) +
                     " dimensions");
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

std::vector<LazyPtr> lazy_split(const LazyPtr& array, std::size_t axis,
                                std::vector<std::int64_t> sizes, std::size_t parts) {
  check_axis(axis, array->shape().size());
  const std::int64_t extent = array->shape()[axis];
  const auto n = static_cast<std::int64_t>(parts);
  const bool equal = sizes.empty();
  if (equal && extent % n == 0) sizes.assign(parts, extent / n);
  std::int64_t rest = extent;
  bool fits = sizes.size() == parts;
  for (std::size_t i = 0; fits && i < parts; ++i) {
    fits = (equal || sizes[i] > 0) && sizes[i] <= rest;
    rest -= fits ? sizes[i] : 0;
  }
  if (!fits || rest != 0)
    invalid_argument(
        "an axis of " + std::to_string(extent) + " elements cannot be split into " +
        (equal ? std::to_string(n) + " equal parts; give 'sizes'" : "parts of these sizes"));
  std::vector<LazyPtr> out;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    out.push_back(lazy_slice(array, axis, begin, size));
    begin += size;
  }
  return out;
}

LazyPtr lazy_element(LazyPtr array, std::size_t axis, std::int64_t index) {
  return std::make_shared<Squeezed>(lazy_slice(std::move(array), axis, index, 1), axis);
}

}  // namespace cairn::inline v0
