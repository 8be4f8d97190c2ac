// fetch_arrays.cc -- makes tensors in memory a source for the writers.
#include <cairn/array/box.h>
#include <cairn/tensor_source.h>

#include <utility>

namespace cairn::inline v0 {
namespace {

void fetch_piece(const ArrayView& array, const TensorPiece& piece) {
  const ArrayView from = piece.part != nullptr ? subview(array, *piece.part) : array;
  const std::size_t size = array.element_size;
  MutableByteView out = piece.out;
  const auto begin = static_cast<std::int64_t>(piece.offset / size);
  for (const Box& box :
       boxes_of_run(from.shape, begin, begin + static_cast<std::int64_t>(out.size() / size))) {
    const std::size_t bytes = static_cast<std::size_t>(element_count(box.shape)) * size;
    MutableArrayView to = {out.data(), array.dtype, size, box.shape, c_strides(box.shape, size)};
    copy_elements(subview(from, box), to);
    out = out.subspan(bytes);
  }
}

}  // namespace

FetchFn fetch_from(std::vector<ArrayView> arrays) {
  return [arrays = std::move(arrays)](std::span<const TensorPiece> pieces) {
    for (const TensorPiece& piece : pieces) fetch_piece(arrays.at(piece.tensor), piece);
  };
}

}  // namespace cairn::inline v0
