#include <cairn/formats/pytorch/tensors/place.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/formats/pytorch/tensors/strided_bytes.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62U;

// a * b, or throws data_loss above kMostBytes.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > kMostBytes / b) data_loss("a tensor has more elements than any memory");
  return a * b;
}

std::uint64_t elements_of(const TorchTensor& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : tensor.shape) {
    if (extent == 0) return 0;
    count = product(count, static_cast<std::uint64_t>(extent));
  }
  return count;
}

// Elements of the storage up to the last one that the tensor shows.
std::uint64_t end_of(const TorchTensor& tensor) {
  std::uint64_t last = 0;
  const auto add = [&](std::uint64_t elements) {
    if (elements > kMostBytes || last > kMostBytes - elements)
      data_loss("a tensor has more elements than any memory");
    last += elements;
  };
  add(tensor.storage.first);
  add(tensor.offset);
  for (std::size_t d = 0; d < tensor.shape.size(); ++d)
    add(product(static_cast<std::uint64_t>(tensor.shape[d] - 1),
                static_cast<std::uint64_t>(tensor.strides[d])));
  return last + 1;
}

void check_storage(const StorageName& name, std::uint64_t bytes) {
  const std::uint64_t element = name.element ? name.element->size : 1;
  if (product(name.count, element) != bytes)
    data_loss(fmt::format("its storage \"{}\" has {} bytes, but {} elements of {} bytes take {}",
                          name.key, bytes, name.count, element, name.count * element));
}

// Axes by falling stride, so that the elements are in the order of the storage. Axes with one
// element come first: their strides mean nothing.
std::vector<std::uint8_t> axes_by_stride(const TorchTensor& tensor) {
  std::vector<std::uint8_t> axes(tensor.shape.size());
  std::iota(axes.begin(), axes.end(), std::uint8_t{0});
  std::ranges::stable_sort(axes, [&](std::uint8_t a, std::uint8_t b) {
    const bool one_a = tensor.shape[a] == 1, one_b = tensor.shape[b] == 1;
    if (one_a || one_b) return one_a && !one_b;
    return tensor.strides[a] > tensor.strides[b];
  });
  return axes;
}

// Whether the elements, taken along these axes, are all elements of a run.
bool is_dense(const TorchTensor& tensor, const std::vector<std::uint8_t>& axes) {
  std::int64_t stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::int64_t extent = tensor.shape[axes[i]];
    if (extent == 1) continue;
    if (tensor.strides[axes[i]] != stride) return false;
    stride *= extent;
  }
  return true;
}

// The axes in their own order, if the elements lie so; else by falling stride.
std::vector<std::uint8_t> order_of(const TorchTensor& tensor) {
  std::vector<std::uint8_t> axes(tensor.shape.size());
  std::iota(axes.begin(), axes.end(), std::uint8_t{0});
  return is_dense(tensor, axes) ? axes : axes_by_stride(tensor);
}

// The bytes of a whole storage. If other tensors show it, too, it is checked once for all.
RawArray whole_storage_array(const StorageBytes& storage) {
  RawArray array = storage.bytes->all();
  if (storage.has_one_user) return array;
  array.checksum.reset();
  array.within = storage.bytes;
  return array;
}

RawArray packed_array(const TorchTensor& tensor, const StorageBytes& storage,
                      const std::vector<std::uint8_t>& axes) {
  const bool in_order = std::ranges::is_sorted(axes) && is_dense(tensor, axes);
  if (!in_order || tensor.offset != 0 || tensor.storage.first != 0)
    throw Error(
        Code::kUnimplemented,
        fmt::format("a view of {} elements, which lie several in a byte", tensor.element.name));
  RawArray array = whole_storage_array(storage);
  array.in_byte = tensor.element.in_byte;
  return array;
}

}  // namespace

TorchTensor narrowed(TorchTensor tensor, const Box& part) {
  for (std::size_t d = 0; d < part.rank(); ++d)
    tensor.offset += static_cast<std::uint64_t>(part.origin[d] * tensor.strides[d]);
  tensor.shape = part.shape;
  return tensor;
}

std::uint64_t memory_of(const TorchTensor& tensor) {
  return product(elements_of(tensor), tensor.element.size);
}

RawArray place_tensor(const TorchTensor& tensor, const StorageBytes& storage) {
  if (tensor.shape.size() > UINT8_MAX)
    throw Error(Code::kUnimplemented, fmt::format("it has {} dimensions", tensor.shape.size()));
  const std::uint64_t stored = storage.bytes->all().stored_bytes();
  check_storage(tensor.storage, stored);
  const std::uint64_t count = elements_of(tensor);
  const std::uint64_t in_byte = tensor.element.in_byte;
  if (count > 0 && end_of(tensor) > stored / tensor.element.size * in_byte)
    data_loss(fmt::format("it ends at element {} of its storage \"{}\", which has {}",
                          end_of(tensor), tensor.storage.key,
                          stored / tensor.element.size * in_byte));
  if (const auto length = tensor.storage.length;
      count > 0 && length && end_of(tensor) - tensor.storage.first > *length)
    data_loss(fmt::format("it ends at element {} of a view of its storage \"{}\", which has {}",
                          end_of(tensor) - tensor.storage.first, tensor.storage.key, *length));
  std::vector<std::uint8_t> axes = count == 0 ? std::vector<std::uint8_t>() : order_of(tensor);
  if (tensor.element.in_byte > 1 && count > 0) return packed_array(tensor, storage, axes);

  const std::uint64_t element = tensor.element.size;
  const std::uint64_t first = (tensor.storage.first + tensor.offset) * element;
  const std::uint64_t bytes = count * element;
  const RawArray& all = storage.bytes->all();
  RawArray array;
  if (count == 0) {
    // nothing to read
  } else if (is_dense(tensor, axes) && bytes == stored) {
    array = whole_storage_array(storage);
  } else if (is_dense(tensor, axes) && !all.stream) {
    array.runs.push_back({all.runs.front().file, all.runs.front().offset + first, bytes});
    array.within = storage.bytes;
  } else {
    array.stream = std::make_shared<StridedBytes>(storage.bytes, tensor, axes);
    array.within = storage.bytes;
  }
  if (!std::ranges::is_sorted(axes)) array.axes = std::move(axes);
  array.big_endian = storage.big_endian && element > 1;
  array.negated = tensor.negated;
  array.conjugated = tensor.conjugated;
  return array;
}

double bytes_read_for(const TorchTensor& tensor, const StorageBytes& storage) {
  const std::uint64_t count = elements_of(tensor);
  const auto bytes = static_cast<double>(count * tensor.element.size);
  if (count == 0 || tensor.element.in_byte > 1) return bytes;
  const std::vector<std::uint8_t> axes = order_of(tensor);
  if (is_dense(tensor, axes)) return bytes;
  return StridedBytes(storage.bytes, tensor, axes).bytes_read();
}

}  // namespace cairn::inline v0::pytorch
