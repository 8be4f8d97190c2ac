// chunk_shape.cc -- chooses chunk shapes: by Orbax's rule, so that both libraries cut an array into
// the same chunks; and runs of elements for arrays whose chunks the user has left to Cairn.
#include <cairn/error.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>
#include <string>

namespace cairn::inline v0::zarr {
namespace {

// Returns the largest divisor of `of` below n, where n > 1 is itself a divisor.
std::int64_t next_divisor(std::int64_t n, std::int64_t of) {
  std::int64_t quotient = of / n + 1;
  for (; quotient <= of / quotient; ++quotient)
    if (of % quotient == 0) return of / quotient;
  // Beyond the square root, trying divisors takes fewer steps than trying quotients.
  for (std::int64_t divisor = std::min(n - 1, of / quotient); divisor > 1; --divisor)
    if (of % divisor == 0) return divisor;
  return 1;
}

// Returns the largest divisor of `of` in [least, most], or 0. Tries as few numbers as possible,
// because a hostile shape may be a huge prime.
std::int64_t divisor_between(std::int64_t least, std::int64_t most, std::int64_t of) {
  std::int64_t quotient = of / most + (of % most != 0 ? 1 : 0);
  for (; quotient <= of / least && quotient <= of / quotient; ++quotient)
    if (of % quotient == 0) return of / quotient;
  for (std::int64_t divisor = std::min(most, of / quotient); divisor >= least; --divisor)
    if (of % divisor == 0) return divisor;
  return 0;
}

// Cuts a chunk shape, starting from the whole piece.
class Cutter {
 public:
  Cutter(const Shape& shape, Shape piece)
      : piece_(std::move(piece)), chunk_(piece_), elements_(element_count(piece_)) {
    for (std::size_t d = 0; d < piece_.size(); ++d) cut_.push_back(shape[d] != piece_[d]);
  }

  void cut(std::size_t d) {
    const std::int64_t next = next_divisor(chunk_[d], piece_[d]);
    elements_ = elements_ / chunk_[d] * next;
    chunk_[d] = next;
    cut_[d] = true;
  }
  void cut_to_one(std::size_t d) {
    elements_ /= chunk_[d];
    chunk_[d] = 1;
    cut_[d] = true;
  }
  // Cuts the largest dimension that is cut already. If none is left, all dimensions may be cut.
  void cut_largest() {
    std::size_t largest = chunk_.size();
    for (std::size_t d = 0; d < chunk_.size(); ++d)
      if (cut_[d] && chunk_[d] > (largest == chunk_.size() ? 1 : chunk_[largest])) largest = d;
    if (largest < chunk_.size()) return cut(largest);
    std::fill(cut_.begin(), cut_.end(), true);
  }

  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] const Shape& chunk() const { return chunk_; }

 private:
  Shape piece_;
  Shape chunk_;
  std::int64_t elements_;
  std::vector<bool> cut_;
};

}  // namespace

Shape choose_chunk_shape(const Shape& shape, const Shape& write_shape, std::size_t element_size,
                         const ChunkTarget& target) {
  if (shape.size() != write_shape.size())
    throw Error(Code::kInvalidArgument, "the shape " + shape_text(shape) + " and the write shape " +
                                            shape_text(write_shape) + " differ in rank");
  Shape piece = write_shape;
  for (std::int64_t& extent : piece) extent = std::max<std::int64_t>(extent, 1);
  Cutter cutter(shape, std::move(piece));
  for (const std::int64_t axis : target.shard_axes) {
    if (axis < 0 || static_cast<std::size_t>(axis) >= shape.size())
      throw Error(Code::kInvalidArgument, "shard axis " + std::to_string(axis) +
                                              " is out of range for an array of rank " +
                                              std::to_string(shape.size()));
    cutter.cut_to_one(static_cast<std::size_t>(axis));
  }
  if (!target.bytes) return cutter.chunk();
  const auto size = static_cast<std::int64_t>(element_size);
  if (*target.bytes < size)
    throw Error(Code::kInvalidArgument, "chunks of at most " + std::to_string(*target.bytes) +
                                            " bytes cannot hold elements of " +
                                            std::to_string(size));
  while (cutter.elements() > *target.bytes / size) cutter.cut_largest();
  return cutter.chunk();
}

std::optional<Shape> leading_chunk_shape(const Shape& piece, std::size_t element_size,
                                         std::int64_t most_bytes) {
  constexpr std::int64_t kLeastShare = 16;
  Shape chunk = piece;
  for (std::int64_t& extent : chunk) extent = std::max<std::int64_t>(extent, 1);
  if (element_size == 0) return std::nullopt;  // the type cannot be stored
  const std::int64_t most =
      most_bytes / static_cast<std::int64_t>(element_size);  // in elements, as all numbers below
  const std::int64_t least = most / kLeastShare;
  std::int64_t elements = element_count(chunk);
  if (elements <= most) return chunk;
  for (std::int64_t& extent : chunk) {
    const std::int64_t row = elements / extent;
    if (row <= most) {
      extent =
          divisor_between(std::max<std::int64_t>((least + row - 1) / row, 1), most / row, extent);
      return extent != 0 ? std::optional(chunk) : std::nullopt;
    }
    extent = 1;
    elements = row;
  }
  return std::nullopt;
}

std::optional<std::int64_t> effective_chunk_bytes(std::optional<std::int64_t> chunk_bytes,
                                                  std::int64_t data_file_bytes,
                                                  std::uint64_t piece_bytes) {
  if (data_file_bytes < 0)
    throw Error(Code::kInvalidArgument, "the data file size is " + std::to_string(data_file_bytes) +
                                            " bytes; it must not be negative (0: no limit)");
  if (data_file_bytes == 0) return chunk_bytes;
  if (chunk_bytes) return std::min(*chunk_bytes, data_file_bytes);
  if (piece_bytes > static_cast<std::uint64_t>(data_file_bytes)) return data_file_bytes;
  return std::nullopt;
}

}  // namespace cairn::inline v0::zarr
