// stream.cc -- cuts arrays into runs of bytes, and reads them.

#include <cairn/tools/source/stream.h>

#include <cairn/array/box.h>
#include <cairn/inspect.h>

#include <algorithm>
#include <limits>

namespace cairn::inline v0 {

std::int64_t cut_elements(const TensorInfo& tensor, const Box& box, std::int64_t most) {
  const std::size_t rank = box.rank();
  std::size_t first = 0;
  while (first < rank && box.shape[first] <= 1) ++first;
  std::int64_t row = 1;  // elements in one step along dimension d
  std::int64_t cut = 1;
  for (std::size_t d = rank; d-- > first;) {
    if (row <= most) cut = row;
    if (d == first && tensor.chunk_shape.size() == rank) {
      const std::int64_t rows = std::clamp<std::int64_t>(tensor.chunk_shape[d], 1, box.shape[d]);
      if (row <= most / rows) cut = row * rows;
    }
    // If one extent is zero, the product of the others may overflow.
    if (__builtin_mul_overflow(row, std::max<std::int64_t>(box.shape[d], 1), &row))
      row = std::numeric_limits<std::int64_t>::max();
  }
  return cut;
}

namespace {

// Whether a run is smaller than one of the chunks it lies in.
bool inside_chunk(const TensorInfo& tensor, std::int64_t elements) {
  return !tensor.chunk_shape.empty() && elements < element_count(tensor.chunk_shape);
}

}  // namespace

void RunReader::add(std::size_t index, const Box& box, std::int64_t begin, MutableByteView out) {
  const TensorInfo& tensor = checkpoint_.tensors()[index];
  const auto size = static_cast<std::int64_t>(tensor.element_size);
  const std::int64_t count = static_cast<std::int64_t>(out.size()) / size;
  auto boxes = boxes_of_run(box.shape, begin, begin + count);
  auto& requests = boxes.size() > 1 && inside_chunk(tensor, count) ? in_order_ : together_;
  std::byte* to = out.data();
  for (Box& part : boxes) {
    for (std::size_t d = 0; d < part.rank(); ++d) part.origin[d] += box.origin[d];
    MutableArrayView view{to, tensor.dtype, tensor.element_size, part.shape,
                          c_strides(part.shape, tensor.element_size)};
    to += element_count(part.shape) * size;
    requests.push_back({index, std::move(part), std::move(view)});
  }
}

void RunReader::read() {
  if (!together_.empty()) checkpoint_.read(together_, {});
  for (const ReadRequest& request : in_order_) checkpoint_.read(std::span(&request, 1), {});
  together_.clear();
  in_order_.clear();
}

void stream_box(const Checkpoint& checkpoint, std::size_t index, const Box& box,
                std::uint64_t memory, const SinkFn& sink) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  const std::int64_t count = element_count(box.shape);
  const auto size = static_cast<std::int64_t>(std::max<std::size_t>(tensor.element_size, 1));
  std::int64_t piece = std::max<std::int64_t>(static_cast<std::int64_t>(memory) / size, 1);
  piece = std::min(piece - piece % cut_elements(tensor, box, piece), count);
  if (piece == 0) return;
  Buffer buffer(static_cast<std::size_t>(piece * size));
  RunReader reader(checkpoint);
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const MutableByteView out(buffer.data(),
                              static_cast<std::size_t>(std::min(piece, count - begin) * size));
    reader.add(index, box, begin, out);
    reader.read();
    sink(out);
  }
}

}  // namespace cairn::inline v0
