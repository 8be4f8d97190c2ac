// box.h -- box arithmetic; copies and casts between strided arrays.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// Returns the part that both boxes share; nullopt if there is none or one of them is empty. The
// ranks must be equal.
std::optional<Box> intersect(const Box& a, const Box& b);
// Returns whether `inner` lies inside `outer`.
bool contains(const Box& outer, const Box& inner);
// Returns the elements [begin, end) of an array, in C order, as consecutive boxes: at most 2 * rank
// - 1.
std::vector<Box> boxes_of_run(std::span<const std::int64_t> shape, std::int64_t begin,
                              std::int64_t end);
// Returns the same box in coordinates relative to `origin`. The ranks must be equal.
Box relative_to(Box box, std::span<const std::int64_t> origin);
// Throws out_of_range, naming the dimension, unless `box` lies inside an array of `shape`.
void check_inside(const Box& box, std::span<const std::int64_t> shape);
// Returns a text like "[0:8, 4:6]".
std::string box_text(const Box& box);

// Returns the sub-array `box` of `view`, in view's own coordinates; copies no bytes.
ArrayView subview(const ArrayView& view, const Box& box);
MutableArrayView subview(const MutableArrayView& view, const Box& box);
// Returns the same view with constant elements.
ArrayView as_const(const MutableArrayView& view);
// Return a view of contiguous elements. Throw invalid_argument for kOpaque, and unless `bytes` has
// exactly the size of `shape`.
ArrayView make_view(ByteView bytes, DType dtype, Shape shape);                // C order
MutableArrayView make_view(MutableByteView bytes, DType dtype, Shape shape);  // C order

// Copies elements of equal type and shape; strides may differ. Merges dimensions, copies whole runs
// with memcpy, and transposes in cache-sized tiles.
void copy_elements(const ArrayView& from, const MutableArrayView& to);
// Copies elements and reverses the bytes of each component (complex: real and imaginary part
// separately). `from` and `to` may be the same memory.
void copy_elements_swapped(const ArrayView& from, const MutableArrayView& to);
// Fills `to` with copies of one element (element_size bytes).
void fill_elements(ByteView element, const MutableArrayView& to);
// Converts between element types like NumPy's astype with ml_dtypes on x86-64. Floats round to
// nearest even, integers wrap, float to integer truncates (cast_plan.h describes NaN and values out
// of range). Bool is != 0; complex to real drops the imaginary part. Only the low bits of a 2- or
// 4-bit element count. Pairs that NumPy refuses follow the same rules. Throws invalid_argument for
// kOpaque. Equal types are copied.
void cast_elements(const ArrayView& from, const MutableArrayView& to);

}  // namespace cairn::inline v0
