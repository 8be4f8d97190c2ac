#include <cairn/tools/dequantize/row_tiles.h>

#include <cairn/array/box.h>
#include <cairn/array/cast_plan.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace cairn::inline v0 {
namespace {

// A tile stays in the cache, and is large enough that the start of a task does not count.
constexpr std::int64_t kTileRows = 32;
constexpr std::int64_t kTileColumns = 2048;

std::int64_t tiles_of(std::int64_t extent, std::int64_t tile) {
  return extent / tile + (extent % tile != 0 ? 1 : 0);
}

class Tiles {
 public:
  Tiles(const MutableArrayView& out, const std::function<void(const RowPart&, float*)>& compute)
      : out_(out), compute_(compute), is_row_(out.shape.size() < 2) {
    // At least a row and a column.
    while (out_.shape.size() < 2) {
      out_.shape.insert(out_.shape.begin(), 1);
      out_.strides.insert(out_.strides.begin(), 0);
    }
    if (out_.dtype != DType::kFloat32) plan_.emplace(DType::kFloat32, out_.dtype);
    const std::size_t rank = out_.shape.size();
    rows_ = tiles_of(out_.shape[rank - 2], kTileRows);
    columns_ = tiles_of(out_.shape[rank - 1], kTileColumns);
    for (std::size_t d = 0; d + 2 < rank; ++d) outer_ *= out_.shape[d];
  }

  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(outer_ * rows_ * columns_);
  }

  void fill(std::size_t tile) const {
    const Box box = box_of(static_cast<std::int64_t>(tile));
    const MutableArrayView to = subview(out_, box);
    const std::size_t rank = box.rank();
    const std::int64_t rows = box.shape[rank - 2], columns = box.shape[rank - 1];
    // Rows that lie as they are computed are stored at once; others, as a tile that is transposed.
    const auto size = static_cast<std::int64_t>(out_.element_size);
    const bool is_direct = columns == 1 || to.strides.back() == size;
    Bytes tile_bytes(is_direct ? 0 : static_cast<std::size_t>(rows * columns * size));
    std::array<float, kTileColumns> numbers;  // NOLINT: filled by compute_
    RowPart part{{}, box.origin.back(), columns};
    if (!is_row_) part.row.assign(box.origin.begin(), box.origin.end() - 1);
    for (std::int64_t i = 0; i < rows; ++i) {
      compute_(part, numbers.data());
      std::byte* row =
          is_direct ? to.data + i * to.strides[rank - 2] : tile_bytes.data() + i * columns * size;
      store(numbers.data(), row, columns);
      if (!part.row.empty()) ++part.row.back();
    }
    if (!is_direct)
      copy_elements(ArrayView{tile_bytes.data(), out_.dtype, out_.element_size, box.shape,
                              c_strides(box.shape, out_.element_size)},
                    to);
  }

 private:
  [[nodiscard]] Box box_of(std::int64_t tile) const {
    Box box;
    const std::size_t rank = out_.shape.size();
    box.origin.resize(rank);
    box.shape.assign(rank, 1);
    const auto cut = [&](std::size_t d, std::int64_t index, std::int64_t extent) {
      box.origin[d] = index * extent;
      box.shape[d] = std::min(extent, out_.shape[d] - box.origin[d]);
    };
    cut(rank - 1, tile % columns_, kTileColumns);
    tile /= columns_;
    cut(rank - 2, tile % rows_, kTileRows);
    tile /= rows_;
    for (std::size_t d = rank - 2; d-- > 0; tile /= out_.shape[d])
      box.origin[d] = tile % out_.shape[d];
    return box;
  }

  void store(const float* numbers, std::byte* to, std::int64_t n) const {
    const auto* from = reinterpret_cast<const std::byte*>(numbers);
    const auto count = static_cast<std::size_t>(n);
    if (plan_)
      plan_->run(from, to, count);
    else
      std::copy_n(from, count * sizeof(float), to);
  }

  MutableArrayView out_;
  const std::function<void(const RowPart&, float*)>& compute_;
  bool is_row_;                   // `out` has no other axes
  std::optional<CastPlan> plan_;  // none: float32
  std::int64_t outer_ = 1, rows_ = 0, columns_ = 0;
};

}  // namespace

void fill_row_tiles(const MutableArrayView& out, Executor& executor,
                    const std::function<void(const RowPart&, float*)>& compute) {
  if (Box::whole(out.shape).empty()) return;
  const Tiles tiles(out, compute);
  executor.for_each(tiles.count(), [&](std::size_t tile) { tiles.fill(tile); });
}

}  // namespace cairn::inline v0
