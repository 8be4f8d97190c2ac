// converting_reader.cc -- cuts arrays into parts, and gathers parts that are read together.
#include <cairn/tree/converting_reader.h>

#include <cairn/array/box.h>
#include <cairn/array/cast_check.h>

#include <algorithm>
#include <string>
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
                           const MutableArrayView& out, Casting casting) {
  // Each read of a part of a compressed array without chunks decodes what comes before it, too.
  const bool is_cut = !tensor.chunk_shape.empty() || tensor.stored_nbytes >= tensor.nbytes;
  const auto add_whole = [&](const Box& part) {
    add_part(array, tensor, part, subview(out, relative_to(part, box.origin)), casting);
  };
  if (is_cut)
    cut(tensor, box, 0, add_whole);
  else
    add_whole(box);
}

// Cuts where chunks end, because a part of a chunk takes as long to read.
void ConvertingReader::cut(const TensorInfo& tensor, const Box& box, std::size_t dimension,
                           const std::function<void(const Box&)>& add) const {
  const std::uint64_t size = stored_bytes(tensor, box);
  if (size <= held_bytes_ || dimension == box.rank()) return add(box);
  const std::int64_t rows = box.shape[dimension];
  const std::int64_t chunk = dimension < tensor.chunk_shape.size()
                                 ? std::max<std::int64_t>(tensor.chunk_shape[dimension], 1)
                                 : 1;
  const auto fit =
      static_cast<std::int64_t>(held_bytes_ / (size / static_cast<std::uint64_t>(rows)));
  const std::int64_t step = std::max<std::int64_t>(fit / chunk, 1) * chunk;
  const std::int64_t end = box.origin[dimension] + rows;
  for (Box part = box; part.origin[dimension] < end;
       part.origin[dimension] += part.shape[dimension]) {
    // up to the end of a chunk, where it begins inside of one
    part.shape[dimension] =
        std::min(end - part.origin[dimension], step - part.origin[dimension] % step);
    cut(tensor, part, dimension + 1, add);
  }
}

void ConvertingReader::flush() {
  if (parts_.empty()) return;
  read_(parts_);
  if (const auto lost = cast_all(casts_, executor_)) fail(*lost);
  parts_.clear();
  casts_.clear();
  origins_.clear();
  used_ = 0;
}

void ConvertingReader::fail(const LostElement& lost) const {
  const auto& [tensor, first] = origins_[lost.cast];
  const Cast& cast = casts_[lost.cast];
  const std::byte* element = cast.from.data;
  std::string index;
  for (std::size_t d = 0; d < lost.index.size(); ++d) {
    element += lost.index[d] * cast.from.strides[d];
    index += (d == 0 ? "" : ", ") + std::to_string(first[d] + lost.index[d]);
  }
  throw Error(Code::kInvalidArgument,
              tensor->full_name() + ": " +
                  (index.empty() ? "the value" : "the element [" + index + "]") + " is " +
                  element_text(cast.from.dtype, element) + " (" +
                  std::string(dtype_name(cast.from.dtype)) + "), which the target's type " +
                  std::string(dtype_name(cast.to.dtype)) +
                  " does not hold exactly; casting=\"unsafe\" converts it nevertheless");
}

void ConvertingReader::add_part(std::size_t array, const TensorInfo& tensor, Box part,
                                const MutableArrayView& out, Casting casting) {
  const std::uint64_t size = stored_bytes(tensor, part);
  if (used_ + size > memory_.size()) flush();
  if (size > memory_.size()) memory_ = Buffer(std::max<std::size_t>(size, held_bytes_));
  const MutableArrayView stored{.data = memory_.data() + used_,
                                .dtype = tensor.dtype,
                                .element_size = tensor.element_size,
                                .shape = part.shape,
                                .strides = c_strides(part.shape, tensor.element_size)};
  casts_.push_back({as_const(stored), out, casting == Casting::kChecked});
  origins_.push_back({&tensor, part.origin});
  parts_.push_back({array, std::move(part), stored});
  used_ += padded_size(size);
}

}  // namespace cairn::inline v0
