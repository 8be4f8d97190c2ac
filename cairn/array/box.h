// box.h -- box arithmetic, and copying and casting between strided arrays.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn {

// The part both boxes share; nullopt if there is none (or one of them is empty). Ranks must be
// equal.
std::optional<Box> intersect(const Box& a, const Box& b);
bool contains(const Box& outer, const Box& inner);
// Elements [begin, end) of an array in C order as boxes that follow each other: at most 2 * rank -
// 1 of them.
std::vector<Box> boxes_of_run(std::span<const std::int64_t> shape, std::int64_t begin,
                              std::int64_t end);
// The same box in the coordinates of what begins at `origin`. Ranks must be equal.
Box relative_to(Box box, std::span<const std::int64_t> origin);
// Throws out_of_range, naming the dimension, unless `box` lies inside an array of `shape`.
void check_inside(const Box& box, std::span<const std::int64_t> shape);
// "[0:8, 4:6]".
std::string box_text(const Box& box);

// The sub-array `box` of `view` (box is in view's own coordinates); no bytes move.
ArrayView subview(const ArrayView& view, const Box& box);
MutableArrayView subview(const MutableArrayView& view, const Box& box);
ArrayView as_const(const MutableArrayView& view);
ArrayView make_view(ByteView bytes, DType dtype, Shape shape);                // C order
MutableArrayView make_view(MutableByteView bytes, DType dtype, Shape shape);  // C order

// Copies elements of the same type and shape between any strides. Collapses dimensions, moves whole
// runs with memcpy, and transposes in cache-sized tiles.
void copy_elements(const ArrayView& from, const MutableArrayView& to);
// Copies with the bytes of each component reversed (complex: real and imaginary part separately).
// `from` may be `to` itself.
void copy_elements_swapped(const ArrayView& from, const MutableArrayView& to);
// Repeats one element (element_size bytes) over `to`.
void fill_elements(ByteView element, const MutableArrayView& to);
// Converts between element types, as NumPy's astype with ml_dtypes does on x86-64: floats round to
// nearest even, integers wrap, float to integer truncates (cast_plan.h says what becomes of NaN and
// of what does not fit), bool is != 0, complex to real drops the imaginary part; only the low bits
// of a 2- or 4-bit element count. The pairs NumPy refuses follow the same rules. Throws
// invalid_argument for kOpaque. Equal types copy.
void cast_elements(const ArrayView& from, const MutableArrayView& to);

}  // namespace cairn
