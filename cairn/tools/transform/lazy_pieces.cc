#include <cairn/tools/transform/lazy_pieces.h>

#include <algorithm>

namespace cairn::inline v0 {

void in_pieces(const Box& box, std::uint64_t memory,
               const std::function<std::uint64_t(const Box&)>& cost,
               const std::function<void(const Box&)>& fill) {
  if (box.empty()) return;
  const auto longest = static_cast<std::size_t>(
      std::max_element(box.shape.begin(), box.shape.end()) - box.shape.begin());
  if (cost(box) <= memory || box.shape.empty() || box.shape[longest] == 1) return fill(box);
  Box first = box;
  first.shape[longest] /= 2;
  Box second = box;
  second.origin[longest] += first.shape[longest];
  second.shape[longest] -= first.shape[longest];
  in_pieces(first, memory, cost, fill);
  in_pieces(second, memory, cost, fill);
}

Array read_piece(const LazyArray& array, const Box& box, const LazyContext& context) {
  Array out = Array::allocate(array.dtype(), box.shape);
  LazyReads reads{context};
  array.read(box, out.mutable_view(), reads);
  reads.run();
  return out;
}

}  // namespace cairn::inline v0
