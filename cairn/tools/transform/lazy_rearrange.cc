// lazy_rearrange.cc -- an array whose axes are cut, exchanged and joined. Its elements are only
// moved. Where a box of it is one box of the array, the reader writes into the result itself;
// otherwise the smallest box that holds the elements is read, and copied from.
#include <cairn/tools/transform/lazy_array.h>
#include <cairn/tools/transform/lazy_pieces.h>
#include <cairn/tools/transform/rearrangement.h>

#include <cairn/array/box.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

using Axes = Rearrangement::Axes;

// A range of each part.
struct PartBox {
  std::vector<std::int64_t> begin, count;
};

Shape shape_of(const Axes& axes, const std::vector<std::int64_t>& extents) {
  Shape shape;
  for (const auto& axis : axes) {
    std::int64_t product = 1;
    for (const std::size_t part : axis) product *= extents[part];
    shape.push_back(product);
  }
  return shape;
}

// A good shape to cut the result by: the parts of the array's own chunks.
Shape rearranged_chunk(const Shape& chunk, const Axes& from, const Axes& to,
                       const std::vector<std::int64_t>& extents) {
  if (chunk.size() != from.size()) return {};
  std::vector<std::int64_t> parts(extents.size(), 1);
  for (std::size_t d = 0; d < from.size(); ++d) {
    std::int64_t rest = std::max<std::int64_t>(chunk[d], 1);
    for (std::size_t i = from[d].size(); i-- > 0;) {
      const std::size_t part = from[d][i];
      parts[part] = std::min(rest, extents[part]);
      rest = std::max<std::int64_t>(rest / std::max<std::int64_t>(extents[part], 1), 1);
    }
  }
  return shape_of(to, parts);
}

// Calls `take` for ranges of the parts of one axis, whose elements are together [begin, end) of it.
// `strides`: elements of the axis from one index of a part to the next.
template <class Take>
void cut_axis(const std::vector<std::size_t>& axis, const std::vector<std::int64_t>& extents,
              std::int64_t begin, std::int64_t end, std::size_t first, PartBox& box,
              const Take& take) {
  if (begin == end) return;
  if (first == axis.size()) return take();
  std::int64_t stride = 1;
  for (std::size_t i = first + 1; i < axis.size(); ++i) stride *= extents[axis[i]];
  const std::size_t part = axis[first];
  const auto range = [&](std::int64_t from, std::int64_t count, std::int64_t inner,
                         std::int64_t inner_end) {
    if (count == 0) return;
    box.begin[part] = from;
    box.count[part] = count;
    cut_axis(axis, extents, inner, inner_end, first + 1, box, take);
  };
  std::int64_t row = begin / stride;
  if (const std::int64_t last = (end - 1) / stride; row == last)
    return range(row, 1, begin - row * stride, end - row * stride);
  if (begin % stride != 0) {
    range(row, 1, begin % stride, stride);
    ++row;
  }
  const std::int64_t whole = end / stride;
  range(row, whole - row, 0, stride);
  range(whole, end % stride == 0 ? 0 : 1, 0, end % stride);
}

class Rearranged final : public LazyArray {
 public:
  Rearranged(LazyPtr array, Axes from, Axes to, std::vector<std::int64_t> extents, std::string text)
      : LazyArray(array->dtype(), shape_of(to, extents),
                  rearranged_chunk(array->chunk_shape(), from, to, extents)),
        array_(std::move(array)),
        from_(std::move(from)),
        to_(std::move(to)),
        extents_(std::move(extents)),
        text_(std::move(text)) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    if (read_directly(box, out, reads) || read_staged(box, out, reads)) return;
    reads.computed.push_back([this, box, out, context = reads.context] {
      const auto cost = [&](const Box& part) {
        std::uint64_t bytes = 0;
        for (const PartBox& parts : part_boxes(part))
          bytes = std::max(bytes, bytes_of(source_box(parts)));
        return bytes;
      };
      in_pieces(box, context.memory, cost, [&](const Box& piece) {
        const MutableArrayView to = subview(out, relative_to(piece, box.origin));
        for (const PartBox& parts : part_boxes(piece))
          copy_parts(read_piece(*array_, source_box(parts), context), parts, piece.origin, to,
                     context.executor);
      });
    });
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return "rearrange(" + array_->text(source) + ", " + text_ + ")";
  }

 private:
  [[nodiscard]] std::uint64_t bytes_of(const Box& box) const {
    return static_cast<std::uint64_t>(element_count(box.shape)) * dtype_size(dtype());
  }

  // Ranges of the parts that are together a box of the result.
  [[nodiscard]] std::vector<PartBox> part_boxes(const Box& box) const {
    std::vector<PartBox> boxes;
    PartBox current{std::vector<std::int64_t>(extents_.size(), 0),
                    std::vector<std::int64_t>(extents_.size(), 1)};
    if (!box.empty()) cut_axes(box, 0, current, boxes);
    return boxes;
  }
  void cut_axes(const Box& box, std::size_t axis, PartBox& current,
                std::vector<PartBox>& boxes) const {
    if (axis == to_.size()) return boxes.push_back(current);
    const std::int64_t begin = box.origin[axis];
    cut_axis(to_[axis], extents_, begin, begin + box.shape[axis], 0, current,
             [&] { cut_axes(box, axis + 1, current, boxes); });
  }

  // The smallest box of the array that holds the elements.
  [[nodiscard]] Box source_box(const PartBox& parts) const {
    Box box;
    for (const auto& axis : from_) {
      std::int64_t first = 0;
      std::int64_t last = 0;
      for (const std::size_t part : axis) {
        first = first * extents_[part] + parts.begin[part];
        last = last * extents_[part] + parts.begin[part] + parts.count[part] - 1;
      }
      box.origin.push_back(first);
      box.shape.push_back(last - first + 1);
    }
    return box;
  }

  // The elements as a view with one axis for each part, in `view`, which holds the box at `origin`
  // of an array with these axes.
  template <class View>
  [[nodiscard]] View part_view(View view, const Axes& axes, const Shape& origin,
                               const PartBox& parts) const {
    Shape strides(extents_.size());
    std::int64_t offset = 0;  // in bytes
    for (std::size_t d = 0; d < axes.size(); ++d) {
      std::int64_t inner = 1;
      std::int64_t first = 0;
      for (std::size_t i = axes[d].size(); i-- > 0;) {
        const std::size_t part = axes[d][i];
        strides[part] = inner * view.strides[d];
        first += inner * parts.begin[part];
        inner *= extents_[part];
      }
      offset += (first - origin[d]) * view.strides[d];
    }
    view.data += offset;
    view.shape = parts.count;
    view.strides = std::move(strides);
    return view;
  }

  // Reads the boxes with all others, and copies from them when they are there.
  bool read_staged(const Box& box, const MutableArrayView& out, LazyReads& reads) const {
    const std::vector<PartBox> all = part_boxes(box);
    std::vector<Array> found;
    for (const PartBox& parts : all) {
      std::optional<Array> array = reads.stage(dtype(), source_box(parts).shape);
      if (!array) return false;
      found.push_back(*std::move(array));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      array_->read(source_box(all[i]), found[i].mutable_view(), reads);
      reads.computed.push_back([this, parts = all[i], from = found[i], origin = box.origin, out,
                                executor = &reads.context.executor] {
        copy_parts(from, parts, origin, out, *executor);
      });
    }
    return true;
  }

  // Copies parts from their box of the array to the box at `origin` of the result.
  void copy_parts(const Array& found, const PartBox& parts, const Shape& origin,
                  const MutableArrayView& out, Executor& executor) const {
    copy_on_all_cores(part_view(found.view(), from_, source_box(parts).origin, parts),
                      part_view(out, to_, origin, parts), executor);
  }

  static void copy_on_all_cores(const ArrayView& from, const MutableArrayView& to,
                                Executor& executor) {
    constexpr std::int64_t kTasks = 16;
    const auto longest = static_cast<std::size_t>(
        std::max_element(from.shape.begin(), from.shape.end()) - from.shape.begin());
    if (from.shape.empty() || from.shape[longest] < kTasks) return copy_elements(from, to);
    const std::int64_t extent = from.shape[longest];
    executor.for_each(kTasks, [&](std::size_t task) {
      Box part = Box::whole(from.shape);
      const auto t = static_cast<std::int64_t>(task);
      part.origin[longest] = extent * t / kTasks;
      part.shape[longest] = extent * (t + 1) / kTasks - part.origin[longest];
      copy_elements(subview(from, part), subview(to, part));
    });
  }

  // Adds the reads if each range of parts is exactly one box of the array, whose elements lie in
  // `out` at equal distances along every axis.
  bool read_directly(const Box& box, const MutableArrayView& out, LazyReads& reads) const {
    struct Direct {
      Box box;
      MutableArrayView out;
    };
    std::vector<Direct> found;
    for (const PartBox& parts : part_boxes(box)) {
      MutableArrayView view = part_view(out, to_, box.origin, parts);
      Shape shape;
      Shape strides;
      for (const auto& axis : from_)
        if (!join_axis(axis, parts, view, shape, strides)) return false;
      view.shape = std::move(shape);
      view.strides = std::move(strides);
      found.push_back({source_box(parts), std::move(view)});
    }
    for (const Direct& read : found) array_->read(read.box, read.out, reads);
    return true;
  }

  // Appends extent and stride of the parts of one axis, seen as one. Returns false if they are not
  // a run of it, or not at equal distances in `view`.
  [[nodiscard]] bool join_axis(const std::vector<std::size_t>& axis, const PartBox& parts,
                               const MutableArrayView& view, Shape& shape, Shape& strides) const {
    std::int64_t extent = 1;
    std::int64_t stride = 0;
    bool inner_is_whole = true;
    for (std::size_t i = axis.size(); i-- > 0;) {
      const std::size_t part = axis[i];
      const std::int64_t count = parts.count[part];
      if (count > 1) {
        if (!inner_is_whole) return false;
        if (extent > 1 && view.strides[part] != extent * stride) return false;
        if (extent == 1) stride = view.strides[part];
        extent *= count;
      }
      inner_is_whole = inner_is_whole && count == extents_[part];
    }
    shape.push_back(extent);
    strides.push_back(stride);
    return true;
  }

  LazyPtr array_;
  Axes from_, to_;
  std::vector<std::int64_t> extents_;
  std::string text_;
};

}  // namespace

LazyPtr lazy_rearrange(LazyPtr array, const Rearrangement& rearrangement,
                       const std::vector<std::optional<std::int64_t>>& known) {
  std::vector<std::int64_t> extents = solve_extents(rearrangement, array->shape(), known);
  if (rearrangement.from == rearrangement.to) return array;
  return std::make_shared<Rearranged>(std::move(array), rearrangement.from, rearrangement.to,
                                      std::move(extents),
                                      axes_text(rearrangement, rearrangement.from) + " -> " +
                                          axes_text(rearrangement, rearrangement.to));
}

}  // namespace cairn::inline v0
