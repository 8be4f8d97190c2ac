#include <cairn/formats/pytorch/tensors/strided_bytes.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

// Elements up to this distance are read together, and what lies between them is dropped.
constexpr std::uint64_t kWindow = std::uint64_t{1} << 20U;  // bytes
constexpr double kBytesOfRead = 4096;                       // a read takes as long as these

}  // namespace

StridedBytes::StridedBytes(std::shared_ptr<const CommonBytes> storage, const TorchTensor& tensor,
                           const std::vector<std::uint8_t>& axes)
    : storage_(std::move(storage)),
      first_((tensor.storage.first + tensor.offset) * tensor.element.size),
      element_(tensor.element.size) {
  for (const std::uint8_t axis : axes) {
    shape_.push_back(tensor.shape[axis]);
    // The stride of an axis with one element may be anything.
    const std::int64_t stride = tensor.shape[axis] == 1 ? 0 : tensor.strides[axis];
    strides_.push_back(stride * static_cast<std::int64_t>(element_));
  }
}

std::uint64_t StridedBytes::size() const {
  return static_cast<std::uint64_t>(element_count(shape_)) * element_;
}

void StridedBytes::read(const std::vector<File>& files, std::uint64_t offset,
                        MutableByteView out) const {
  if (out.empty()) return;
  if (offset % element_ != 0 || out.size() % element_ != 0)
    invalid_argument("a read of a strided tensor cuts an element");
  const auto begin = static_cast<std::int64_t>(offset / element_);
  const auto count = static_cast<std::int64_t>(out.size() / element_);
  for (const Box& box : boxes_of_run(shape_, begin, begin + count)) {
    const auto bytes = static_cast<std::uint64_t>(element_count(box.shape)) * element_;
    read_box(files, box, out.first(bytes));
    out = out.subspan(bytes);
  }
}

void StridedBytes::read_box(const std::vector<File>& files, const Box& box,
                            MutableByteView out) const {
  std::uint64_t begin = first_, extent = element_;
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    begin += static_cast<std::uint64_t>(box.origin[d] * strides_[d]);
    extent += static_cast<std::uint64_t>((box.shape[d] - 1) * strides_[d]);
  }
  if (is_run(box.shape)) return read_storage(files, begin, out);
  const bool repeats = extent < out.size();
  if (extent <= kWindow || repeats) {
    Bytes window(extent);
    read_storage(files, begin, window);
    copy_elements(ArrayView{window.data(), DType::kOpaque, element_, box.shape, strides_},
                  MutableArrayView{out.data(), DType::kOpaque, element_, box.shape,
                                   c_strides(box.shape, element_)});
    return;
  }
  // Parts along the first axis that has several indices.
  std::size_t axis = 0;
  while (box.shape[axis] == 1) ++axis;
  const std::uint64_t step_bytes = static_cast<std::uint64_t>(strides_[axis]);
  const std::uint64_t inner = extent - static_cast<std::uint64_t>(box.shape[axis] - 1) * step_bytes;
  const std::int64_t step = step_bytes == 0 || inner >= kWindow
                                ? 1
                                : 1 + static_cast<std::int64_t>((kWindow - inner) / step_bytes);
  for (std::int64_t at = 0; at < box.shape[axis]; at += step) {
    Box part = box;
    part.origin[axis] += at;
    part.shape[axis] = std::min(step, box.shape[axis] - at);
    const auto bytes = static_cast<std::uint64_t>(element_count(part.shape)) * element_;
    read_box(files, part, out.first(bytes));
    out = out.subspan(bytes);
  }
}

// As read_box() does for the whole tensor, from the outermost axis on.
double StridedBytes::bytes_read() const {
  double reads = 1;
  bool goes_back = false;
  Shape shape = shape_;
  std::uint64_t extent = element_;
  for (std::size_t d = 0; d < shape.size(); ++d)
    extent += static_cast<std::uint64_t>((shape[d] - 1) * strides_[d]);
  for (std::size_t axis = 0; extent > kWindow && !is_run(shape); ++axis) {
    const auto step = static_cast<std::uint64_t>(strides_[axis]);
    const std::uint64_t inner = extent - static_cast<std::uint64_t>(shape[axis] - 1) * step;
    goes_back = goes_back || (shape[axis] > 1 && step < inner);
    const auto n = static_cast<double>(shape[axis]);
    if (inner < kWindow && step > 0 && step <= kWindow - inner) {
      const std::uint64_t in_window = 1 + (kWindow - inner) / step;
      reads *= std::max(1.0, n / static_cast<double>(in_window));
      extent = kWindow;
    } else {
      reads *= n;
      shape[axis] = 1;
      extent = inner;
    }
  }
  const auto stored = static_cast<double>(storage_->all().stored_bytes());
  if (storage_->all().stream && goes_back) return reads * stored;
  return reads * std::max(static_cast<double>(extent), kBytesOfRead);
}

bool StridedBytes::is_run(const Shape& shape) const {
  auto stride = static_cast<std::int64_t>(element_);
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (strides_[d] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

void StridedBytes::read_storage(const std::vector<File>& files, std::uint64_t offset,
                                MutableByteView out) const {
  read_raw_bytes(files, storage_->all(), offset, out);
}

}  // namespace cairn::inline v0::pytorch
