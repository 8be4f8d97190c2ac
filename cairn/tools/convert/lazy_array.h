// lazy_array.h -- arrays that are made of stored ones when they are read, box by box: cut, joined,
// turned, cast, and sums of products.
#pragma once

#include <cairn/checkpoint.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn {

class LazyArray;
using LazyPtr = std::shared_ptr<const LazyArray>;

// What reading a box comes to. What only moves elements is a part of one plan; what computes comes
// after it, one after the other, in pieces that take `memory` bytes at most, if they can be cut so
// small.
struct LazyReads {
  const Checkpoint& source;
  std::uint64_t memory;
  std::vector<ReadRequest> direct = {};
  std::vector<std::function<void()>> computed = {};

  void run();
};

class LazyArray {
 public:
  LazyArray(DType dtype, Shape shape, Shape chunk_shape)
      : dtype_(dtype), shape_(std::move(shape)), chunk_shape_(std::move(chunk_shape)) {}
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;
  virtual ~LazyArray() = default;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  // a good way to cut it; empty: none
  [[nodiscard]] const Shape& chunk_shape() const { return chunk_shape_; }
  // Adds what it takes to fill `out`, which has the shape of the box and this dtype.
  virtual void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const = 0;
  // Indices of the stored arrays that it needs.
  virtual void add_sources(std::vector<std::size_t>& sources) const = 0;
  // "concatenate(a, transpose(b))", with names from the source.
  [[nodiscard]] virtual std::string text(const Checkpoint& source) const = 0;

 private:
  DType dtype_;
  Shape shape_, chunk_shape_;
};

LazyPtr lazy_stored(const Checkpoint& source, std::size_t index);
LazyPtr lazy_cast(LazyPtr array, DType dtype);
// axes[d]: which axis of the array becomes axis d. Throws invalid_argument for axes that are no
// permutation.
LazyPtr lazy_transpose(LazyPtr array, std::vector<std::size_t> axes);
// Joined along an axis that all have, or along a new one. Throws invalid_argument for arrays that
// do not fit each other.
LazyPtr lazy_concatenate(std::vector<LazyPtr> arrays, std::size_t axis);
LazyPtr lazy_stack(std::vector<LazyPtr> arrays, std::size_t axis);
// `count` elements of an axis; one element, without the axis. Within its extent.
LazyPtr lazy_slice(LazyPtr array, std::size_t axis, std::int64_t begin, std::int64_t count);
LazyPtr lazy_element(LazyPtr array, std::size_t axis, std::int64_t index);
// w + scale * a @ b, for w (m, n), a (m, r), b (r, n), all of them real floating arrays. Computed
// in float64 and rounded once, to w's type.
LazyPtr lazy_add_low_rank(LazyPtr w, LazyPtr a, LazyPtr b, double scale);

}  // namespace cairn
