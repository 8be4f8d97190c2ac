// quantized_model.h -- quantised weights of random shapes in memory, and their numbers, computed
// one by one in float64.
#pragma once

#include <cairn/checkpoint.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/memory_checkpoint.h"

namespace cairn::testing {

using Index = std::vector<std::int64_t>;

template <class T>
T element_at(const Array& array, const Index& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) at = at * array.shape()[d] + index[d];
  T value{};
  std::memcpy(&value, array.bytes().data() + at * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

inline Array random_array(std::mt19937& random, DType dtype, const Shape& shape) {
  Array array = Array::allocate(dtype, shape);
  const MutableArrayView view = array.mutable_view();
  for (std::size_t i = 0; i < array.bytes().size(); ++i)
    view.data[i] = static_cast<std::byte>(random());
  return array;
}

// float32 numbers of every sign, some of them zero.
inline Array random_floats(std::mt19937& random, const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (float& value : values)
    value = random() % 9 == 0 ? 0.0F
                              : std::ldexp(static_cast<float>(random() % 20001) - 10000.0F,
                                           -static_cast<int>(random() % 12));
  return make_array(DType::kFloat32, shape, values);
}

// Calls f with each index of an array of this shape, in C order.
inline void for_each_index(const Shape& shape, const std::function<void(const Index&)>& f) {
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    Index index(shape.size());
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    f(index);
  }
}

// Compares float32 results with expected numbers; NaN equals NaN. Returns the first difference.
inline std::string first_difference(const Array& found, const Shape& shape,
                                    const std::function<float(const Index&)>& expected) {
  if (found.shape() != shape) return "shape " + shape_text(found.shape());
  std::string difference;
  for_each_index(shape, [&](const Index& index) {
    const float want = expected(index), got = element_at<float>(found, index);
    const bool same =
        (std::isnan(want) && std::isnan(got)) || std::memcmp(&want, &got, sizeof(want)) == 0;
    if (!same && difference.empty())
      difference = shape_text(index) + ": expected " + std::to_string(want) + ", found " +
                   std::to_string(got);
  });
  return difference;
}

// The results of a checkpoint that reads in small pieces, and of boxes, must be those of the whole.
inline std::string difference_in_boxes(
    const Checkpoint& checkpoint, const std::string& name, const Array& whole, std::mt19937& random,
    const std::function<Box(std::mt19937&, const Shape&)>& box_in) {
  for (int i = 0; i < 20; ++i) {
    const Box box = box_in(random, whole.shape());
    Array part = Array::allocate(whole.dtype(), box.shape);
    checkpoint.read(name, box, part.mutable_view());
    Array expected = Array::allocate(whole.dtype(), box.shape);
    copy_elements(subview(whole.view(), box), expected.mutable_view());
    if (!(part == expected)) return name + " box " + box_text(box);
  }
  return "";
}

}  // namespace cairn::testing
