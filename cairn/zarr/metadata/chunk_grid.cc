// chunk_grid.cc -- the arithmetic of regular grids.

#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>

namespace cairn::inline v0::zarr {

Shape grid_shape(std::span<const std::int64_t> shape, std::span<const std::int64_t> chunk_shape) {
  Shape grid(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    grid[d] = shape[d] / chunk_shape[d] + (shape[d] % chunk_shape[d] != 0 ? 1 : 0);
  return grid;
}

std::int64_t grid_number(std::span<const std::int64_t> grid,
                         std::span<const std::int64_t> position) {
  std::int64_t number = 0;
  for (std::size_t d = 0; d < grid.size(); ++d) number = number * grid[d] + position[d];
  return number;
}

std::vector<std::int64_t> grid_position(std::span<const std::int64_t> grid, std::int64_t number) {
  std::vector<std::int64_t> position(grid.size());
  for (std::size_t d = grid.size(); d-- > 0; number /= grid[d]) position[d] = number % grid[d];
  return position;
}

ChunkCursor::ChunkCursor(const Box& box, std::span<const std::int64_t> chunk_shape)
    : box_(&box), chunk_shape_(chunk_shape), done_(box.empty()) {
  if (done_) return;
  const std::vector<std::int64_t> zeros(box.rank(), 0);
  part_ = {.position = zeros, .in_chunk = {zeros, zeros}, .in_box = {zeros, zeros}};
  for (std::size_t d = 0; d < box.rank(); ++d) {
    part_.position[d] = box.origin[d] / chunk_shape[d];
    update(d);
  }
}

void ChunkCursor::next() {
  for (std::size_t d = box_->rank(); d-- > 0;) {
    const std::int64_t last = (box_->origin[d] + box_->shape[d] - 1) / chunk_shape_[d];
    const bool carry = part_.position[d] == last;
    part_.position[d] = carry ? box_->origin[d] / chunk_shape_[d] : part_.position[d] + 1;
    update(d);
    if (!carry) return;
  }
  done_ = true;
}

// Computes the part of the box in the current chunk, for dimension d.
void ChunkCursor::update(std::size_t d) {
  const std::int64_t start = part_.position[d] * chunk_shape_[d];
  const std::int64_t box_end = box_->origin[d] + box_->shape[d];
  const std::int64_t from = std::max(start, box_->origin[d]);
  // start + extent may exceed 2^63 for the last chunk of a huge array, so compare differences.
  const std::int64_t to = box_end - start < chunk_shape_[d] ? box_end : start + chunk_shape_[d];
  part_.in_chunk.origin[d] = from - start;
  part_.in_box.origin[d] = from - box_->origin[d];
  part_.in_chunk.shape[d] = part_.in_box.shape[d] = to - from;
}

}  // namespace cairn::inline v0::zarr
