// converting_reader.cc -- cuts arrays into parts, and gathers parts that are read together.
#include <cairn/tree/converting_reader.h>

#include <cairn/array/box.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {

std::uint64_t stored_bytes(const TensorInfo& tensor, const Box& box) {
  return static_cast<std::uint64_t>(element_count(box.shape)) * tensor.element_size;
}

std::uint64_t ConvertingReader::usual_bytes(const Executor& executor) {
  constexpr std::uint64_t kChunk = std::uint64_t{16} << 20U;
  return kChunk * std::clamp<std::uint64_t>(executor.threads(), 3, 16);
}

void ConvertingReader::add(std::size_t array, const TensorInfo& tensor, const Box& box,
                           const MutableArrayView& out) {
  if (box.rank() == 0) return add_part(array, tensor, box, out);
  const std::int64_t step = rows_at_once(tensor, box);
  const std::int64_t end = box.origin[0] + box.shape[0];
  for (Box part = box; part.origin[0] < end; part.origin[0] += part.shape[0]) {
    // up to the end of a chunk, where it begins inside of one
    part.shape[0] = std::min(end - part.origin[0], step - part.origin[0] % step);
    add_part(array, tensor, part, subview(out, relative_to(part, box.origin)));
  }
}

void ConvertingReader::flush() {
  if (parts_.empty()) return;
  read_(std::exchange(parts_, {}));
  cast_all(casts_, executor_);
  casts_.clear();
  used_ = 0;
}

// Returns a multiple of the rows of a chunk, all of which are read whole: a part of a chunk takes as
// long to read. A compressed array without chunks is read whole for the same reason.
std::int64_t ConvertingReader::rows_at_once(const TensorInfo& tensor, const Box& box) const {
  const std::int64_t rows = std::max<std::int64_t>(box.shape[0], 1);
  const bool has_chunks = !tensor.chunk_shape.empty();
  if (!has_chunks && tensor.stored_nbytes < tensor.nbytes) return box.origin[0] + rows;
  const std::uint64_t row = std::max<std::uint64_t>(stored_bytes(tensor, box) / rows, 1);
  const auto fit = static_cast<std::int64_t>(std::max<std::uint64_t>(held_bytes_ / row, 1));
  const std::int64_t chunk = has_chunks ? std::max<std::int64_t>(tensor.chunk_shape[0], 1) : 1;
  return std::max<std::int64_t>(fit / chunk, 1) * chunk;
}

void ConvertingReader::add_part(std::size_t array, const TensorInfo& tensor, Box part,
                                const MutableArrayView& out) {
  const std::uint64_t size = stored_bytes(tensor, part);
  if (used_ + size > memory_.size()) flush();
  if (size > memory_.size()) memory_ = Buffer(std::max<std::size_t>(size, held_bytes_));
  const MutableArrayView stored{.data = memory_.data() + used_,
                                .dtype = tensor.dtype,
                                .element_size = tensor.element_size,
                                .shape = part.shape,
                                .strides = c_strides(part.shape, tensor.element_size)};
  casts_.push_back({as_const(stored), out});
  parts_.push_back({array, std::move(part), stored});
  used_ += padded_size(size);
}

}  // namespace cairn::inline v0
