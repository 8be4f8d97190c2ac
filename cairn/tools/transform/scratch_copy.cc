#include <cairn/tools/transform/scratch_copy.h>
#include <cairn/types.h>

#include <cairn/array/box.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// bytes that one thread copies at a time
constexpr std::uint64_t kPart = std::uint64_t{1} << 20U;
// Longer runs are written from where they lie; copying them together costs more than the calls.
constexpr std::uint64_t kLongRun = std::uint64_t{16} << 10U;

// The number of last axes along which the elements lie together.
std::size_t contiguous_axes(const ArrayView& view) {
  std::size_t axes = 0;
  auto step = static_cast<std::int64_t>(view.element_size);
  for (std::size_t d = view.shape.size();
       d-- > 0 && (view.shape[d] == 1 || view.strides[d] == step); ++axes)
    step *= view.shape[d];
  return axes;
}

// Calls `work` for each index of an array with these extents, in C order.
template <class Work>
void for_each_index(std::span<const std::int64_t> extents, const Work& work) {
  Shape at(extents.size());
  for (std::size_t d = 1; d > 0;) {
    work(at);
    d = extents.size();
    while (d > 0 && ++at[d - 1] == extents[d - 1]) at[--d] = 0;
  }
}

// Cuts a box into parts of at most `most` elements, along its first axes.
void cut_box(const Box& box, std::int64_t most, std::vector<Box>& parts) {
  const auto cut = std::find_if(box.shape.begin(), box.shape.end(),
                                [](std::int64_t extent) { return extent > 1; });
  const std::int64_t count = element_count(box.shape);
  if (count <= most || cut == box.shape.end()) return parts.push_back(box);
  const auto d = static_cast<std::size_t>(cut - box.shape.begin());
  const std::int64_t rows = std::max<std::int64_t>(most / (count / box.shape[d]), 1);
  for (std::int64_t row = 0; row < box.shape[d]; row += rows) {
    Box part = box;
    part.origin[d] += row;
    part.shape[d] = std::min(rows, box.shape[d] - row);
    if (rows == 1)
      cut_box(part, most, parts);
    else
      parts.push_back(std::move(part));
  }
}

}  // namespace

ScratchCopy::ScratchCopy(const TensorInfo& tensor, Shape cell, const std::string& folder)
    : shape_(tensor.shape),
      cell_(std::move(cell)),
      dtype_(tensor.dtype),
      element_size_(tensor.element_size),
      file_(folder) {}

void ScratchCopy::write(const Box& box, const ArrayView& values, Executor& executor) {
  for_each_part(box, executor, [&](const Box& part) {
    ArrayView from = subview(values, relative_to(part, box.origin));
    Buffer buffer;
    if (run_bytes(part, contiguous_axes(from)) < kLongRun) {
      buffer = Buffer(static_cast<std::size_t>(element_count(part.shape)) * element_size_);
      const auto gathered =
          make_view(MutableByteView(buffer.data(), buffer.size()), dtype_, part.shape);
      copy_elements(from, gathered);
      from = as_const(gathered);
    }
    for_each_run(part, contiguous_axes(from),
                 [&](const Shape& at, std::uint64_t offset, std::size_t length) {
                   const std::byte* run = from.data;
                   for (std::size_t d = 0; d < at.size(); ++d) run += at[d] * from.strides[d];
                   file_.write_at(offset, {run, length});
                 });
  });
}

void ScratchCopy::read(const Box& box, const MutableArrayView& out, Executor& executor) const {
  for_each_part(box, executor, [&](const Box& part) {
    Buffer buffer(static_cast<std::size_t>(element_count(part.shape)) * element_size_);
    MutableByteView rest(buffer.data(), buffer.size());
    for_each_run(part, part.rank(),
                 [&](const Shape& /*at*/, std::uint64_t offset, std::size_t length) {
                   file_.read_at(offset, rest.first(length));
                   rest = rest.subspan(length);
                 });
    copy_elements(make_view(ByteView(buffer), dtype_, part.shape),
                  subview(out, relative_to(part, box.origin)));
  });
}

void ScratchCopy::for_each_part(const Box& box, Executor& executor,
                                const std::function<void(const Box&)>& work) const {
  if (box.empty()) return;
  std::vector<Box> parts;
  const auto most = static_cast<std::int64_t>(kPart / element_size_);
  const std::size_t rank = box.rank();
  Shape first(rank);  // the first cell, and how many there are, along each axis
  Shape count(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    first[d] = box.origin[d] / cell_[d];
    count[d] = (box.origin[d] + box.shape[d] - 1) / cell_[d] + 1 - first[d];
  }
  for_each_index(count, [&](const Shape& at) {
    Box cell{first, cell_};
    for (std::size_t d = 0; d < rank; ++d) cell.origin[d] = (first[d] + at[d]) * cell_[d];
    if (const auto shared = intersect(cell, box)) cut_box(*shared, most, parts);
  });
  executor.for_each(parts.size(), [&](std::size_t i) { work(parts[i]); });
}

std::size_t ScratchCopy::run_axes(const Box& part, std::size_t most) const {
  std::size_t axes = 0;
  for (std::size_t d = part.rank(); d-- > 0 && axes < most;) {
    ++axes;
    if (part.shape[d] != cell_[d]) break;
  }
  return axes;
}

std::uint64_t ScratchCopy::run_bytes(const Box& part, std::size_t most_axes) const {
  const std::span<const std::int64_t> shape = part.shape;
  return static_cast<std::uint64_t>(element_count(shape.last(run_axes(part, most_axes)))) *
         element_size_;
}

void ScratchCopy::for_each_run(const Box& part, std::size_t most_axes, const RunFn& work) const {
  const std::size_t rank = part.rank();
  std::int64_t cell_index = 0;
  std::int64_t inside = 0;  // the position of the part's first element in its cell
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t cells = (shape_[d] + cell_[d] - 1) / cell_[d];
    cell_index = cell_index * cells + part.origin[d] / cell_[d];
    inside = inside * cell_[d] + part.origin[d] % cell_[d];
  }
  const Shape steps = c_strides(cell_, 1);
  const auto base = static_cast<std::uint64_t>(cell_index * element_count(cell_) + inside);
  const std::size_t outer = rank - run_axes(part, most_axes);
  const auto length = static_cast<std::size_t>(run_bytes(part, most_axes));
  for_each_index(std::span(part.shape).first(outer), [&](const Shape& at) {
    std::uint64_t element = base;
    for (std::size_t d = 0; d < outer; ++d) element += static_cast<std::uint64_t>(at[d] * steps[d]);
    work(at, element * element_size_, length);
  });
}

}  // namespace cairn::inline v0
