// lazy_array.h -- arrays computed from stored ones when they are read, box by box: sliced, joined,
// transposed, cast, and sums of products.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

class LazyArray;
class ScratchArrays;
struct Rearrangement;
using LazyPtr = std::shared_ptr<const LazyArray>;

// What lazy arrays are read from, and with what.
struct LazyContext {
  const Checkpoint& source;
  std::uint64_t memory;  // bytes of one piece that is computed, if it can be cut that small
  Executor& executor;    // computes
  // reads the stored arrays; null: the source reads them
  ScratchArrays* scratch = nullptr;
};

// The reads that fill a box. Reads that only move elements form one plan. Computations follow it
// one at a time, in pieces.
struct LazyReads {
  LazyContext context;
  std::vector<ReadRequest> direct = {};
  std::vector<std::function<void()>> computed = {};
  std::uint64_t staged = 0;  // bytes of the arrays from stage()

  // An array for elements that the reads fill and a computation uses, so that they are read
  // together with all others; nullopt if it would exceed half of the memory.
  std::optional<Array> stage(DType dtype, const Shape& shape);
  // Performs the reads, then the computations.
  void run();
};

// An expression over stored arrays.
class LazyArray {
 public:
  LazyArray(DType dtype, Shape shape, Shape chunk_shape)
      : dtype_(dtype), shape_(std::move(shape)), chunk_shape_(std::move(chunk_shape)) {}
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;
  virtual ~LazyArray() = default;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  // a good shape to cut the array by; empty: none
  [[nodiscard]] const Shape& chunk_shape() const { return chunk_shape_; }
  // Adds the reads that fill `out`, which has the shape of the box and this dtype.
  virtual void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const = 0;
  // Appends the indices of the stored arrays that it needs.
  virtual void add_sources(std::vector<std::size_t>& sources) const = 0;
  // The expression as text: "concatenate(a, transpose(b))", with names from the source.
  [[nodiscard]] virtual std::string text(const Checkpoint& source) const = 0;

 private:
  DType dtype_;
  Shape shape_, chunk_shape_;
};

// Gives the description of a leaf the type, shape and chunks of the array that it becomes. A
// sharding is valid for one shape only: another shape makes it a host array without one.
void describe_as(const LazyArray& array, TensorInfo& tensor);

// A stored array as it is.
LazyPtr lazy_stored(const Checkpoint& source, std::size_t index);
// Converts the elements to another type.
LazyPtr lazy_cast(LazyPtr array, DType dtype);
// Transposes an array; axes[d] is the axis of the array that becomes axis d. Throws
// invalid_argument unless the axes are a permutation.
LazyPtr lazy_transpose(LazyPtr array, std::vector<std::size_t> axes);
// Join arrays along an existing axis (concatenate) or along a new one (stack). They throw
// invalid_argument for arrays that do not fit each other.
LazyPtr lazy_concatenate(std::vector<LazyPtr> arrays, std::size_t axis);
LazyPtr lazy_stack(std::vector<LazyPtr> arrays, std::size_t axis);
// An axis of an array of `rank` dimensions as a number from 0; negative numbers count from the end.
// Throws invalid_argument for another one.
std::size_t axis_index(std::int64_t axis, std::size_t rank);
// Cuts an array along an axis into `parts` arrays of these sizes; no sizes: of equal ones. Throws
// invalid_argument unless the sizes are above 0 and are together the extent.
std::vector<LazyPtr> lazy_split(const LazyPtr& array, std::size_t axis,
                                std::vector<std::int64_t> sizes, std::size_t parts);
// Take `count` elements of an axis, or one element and drop the axis. Both must lie within the
// axis.
LazyPtr lazy_slice(LazyPtr array, std::size_t axis, std::int64_t begin, std::int64_t count);
LazyPtr lazy_element(LazyPtr array, std::size_t axis, std::int64_t index);
// w + scale * a @ b, for w (m, n), a (m, r), b (r, n), all of a real floating type. Computed in
// float64 and rounded once, to w's type.
LazyPtr lazy_add_low_rank(LazyPtr w, LazyPtr a, LazyPtr b, double scale);

// Cuts, exchanges and joins axes. `known`: the extent of each part of the rearrangement, or none.
// Throws as solve_extents().
LazyPtr lazy_rearrange(LazyPtr array, const Rearrangement& rearrangement,
                       const std::vector<std::optional<std::int64_t>>& known);
// Adds zeros at the end of an axis, or cuts elements off. Reading then throws failed_precondition
// if one that is cut off is not zero, unless `trim_any_values`.
LazyPtr lazy_resize(LazyPtr array, std::size_t axis, std::int64_t size, bool trim_any_values);
// An array whose elements are all `number`, converted to the type.
LazyPtr lazy_fill(DType dtype, const Shape& shape, double number);
// The first of several arrays that must be equal byte for byte. Reading throws failed_precondition
// if they are not. Throws invalid_argument if their types or shapes differ.
LazyPtr lazy_same(std::vector<LazyPtr> arrays);

}  // namespace cairn::inline v0
