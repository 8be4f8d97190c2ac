// copy_test.cc -- strided copies against a loop over single elements, for random shapes, strides
// and types.
#include <cairn/array/box.h>
#include <cairn/error.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace cairn {
namespace {

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

// Memory with a view into it: dimensions in any memory order, gaps, negative strides, any
// alignment.
struct Strided {
  Bytes memory;
  std::int64_t start = 0;  // of element (0, ..., 0)
  std::vector<std::int64_t> strides;
};

Strided random_layout(Random& random, const Shape& shape, std::size_t element_size,
                      bool may_repeat) {
  Strided layout;
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (pick(random, 0, 1) == 1) std::shuffle(order.begin(), order.end(), random);
  layout.strides.resize(shape.size());
  auto step = static_cast<std::int64_t>(element_size);
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t d = order[i];
    if (pick(random, 0, 4) == 0) step += pick(random, 1, 9);
    std::int64_t stride = step;
    if (pick(random, 0, 5) == 0) stride = -stride;
    if (may_repeat && pick(random, 0, 7) == 0) stride = 0;
    layout.strides[d] = stride;
    const std::int64_t reach = stride * std::max<std::int64_t>(shape[d] - 1, 0);
    (reach < 0 ? lowest : highest) += reach;
    if (stride != 0) step *= std::max<std::int64_t>(shape[d], 1);
  }
  const std::int64_t lead = pick(random, 0, 3);
  layout.start = lead - lowest;
  layout.memory.resize(static_cast<std::size_t>(lead + highest - lowest) + element_size + 3);
  for (auto& b : layout.memory) b = static_cast<std::byte>(random());
  return layout;
}

using Move = void (*)(const std::byte* from, std::byte* to, std::size_t element_size, DType dtype);

void plain(const std::byte* from, std::byte* to, std::size_t element_size, DType) {
  std::memcpy(to, from, element_size);
}

void swapped(const std::byte* from, std::byte* to, std::size_t element_size, DType dtype) {
  const std::size_t part =
      dtype_kind(dtype) == DTypeKind::kComplex ? element_size / 2 : element_size;
  for (std::size_t i = 0; i < element_size; ++i)
    to[i / part * part + part - 1 - i % part] = from[i];
}

// The slow, obvious way.
void expect_loop(const Shape& shape, const Strided& from, Strided& to, Move move,
                 std::size_t element_size, DType dtype) {
  const std::int64_t n = element_count(shape);
  for (std::int64_t flat = 0; flat < n; ++flat) {
    std::int64_t rest = flat;
    std::int64_t f = from.start;
    std::int64_t t = to.start;
    for (std::size_t d = shape.size(); d-- > 0;) {
      f += rest % shape[d] * from.strides[d];
      t += rest % shape[d] * to.strides[d];
      rest /= shape[d];
    }
    move(from.memory.data() + f, to.memory.data() + t, element_size, dtype);
  }
}

Shape random_shape(Random& random) {
  Shape shape(static_cast<std::size_t>(pick(random, 0, 5)));
  const std::int64_t largest = shape.size() <= 2 ? 150 : shape.size() == 3 ? 24 : 7;
  for (auto& n : shape) n = pick(random, 0, 30) == 0 ? 0 : pick(random, 1, largest);
  return shape;
}

using Copy = void (*)(const ArrayView&, const MutableArrayView&);

void check_random_copies(Copy copy, Move move, std::uint64_t seed) {
  Random random(seed);
  for (int round = 0; round < 1500; ++round) {
    const auto dtype =
        static_cast<DType>(pick(random, 0, move == plain ? kDTypeCount : kDTypeCount - 1));
    const std::size_t size =
        dtype == DType::kOpaque ? static_cast<std::size_t>(pick(random, 0, 40)) : dtype_size(dtype);
    const Shape shape = random_shape(random);
    const Strided from = random_layout(random, shape, std::max<std::size_t>(size, 1), true);
    Strided to = random_layout(random, shape, std::max<std::size_t>(size, 1), false);
    Strided expected = to;
    expect_loop(shape, from, expected, move, size, dtype);
    copy({.data = from.memory.data() + from.start,
          .dtype = dtype,
          .element_size = size,
          .shape = shape,
          .strides = from.strides},
         {.data = to.memory.data() + to.start,
          .dtype = dtype,
          .element_size = size,
          .shape = shape,
          .strides = to.strides});
    ASSERT_TRUE(to.memory == expected.memory)
        << "round " << round << " " << dtype_name(dtype) << " size " << size << " shape "
        << shape_text(shape) << " from " << shape_text(from.strides) << " to "
        << shape_text(to.strides);
  }
}

TEST(Copy, EqualsTheElementLoop) { check_random_copies(copy_elements, plain, 1); }
TEST(Copy, SwappedEqualsTheElementLoop) { check_random_copies(copy_elements_swapped, swapped, 2); }

TEST(Copy, TransposesOfEveryElementSize) {
  for (const DType dtype :
       {DType::kUint8, DType::kBfloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    const auto size = static_cast<std::int64_t>(dtype_size(dtype));
    const Shape shape{130, 257};
    Strided from{Bytes(static_cast<std::size_t>(130 * 257 * size)), 0, {size, 130 * size}};
    for (std::size_t i = 0; i < from.memory.size(); ++i)
      from.memory[i] = static_cast<std::byte>(i * 131 + i / 251);
    Strided to{Bytes(from.memory.size()), 0, {257 * size, size}};
    Strided expected = to;
    expect_loop(shape, from, expected, plain, dtype_size(dtype), dtype);
    copy_elements({.data = from.memory.data(),
                   .dtype = dtype,
                   .element_size = dtype_size(dtype),
                   .shape = shape,
                   .strides = from.strides},
                  make_view(MutableByteView(to.memory), dtype, shape));
    EXPECT_TRUE(to.memory == expected.memory) << dtype_name(dtype);
  }
}

TEST(Copy, TouchesNothingOutsideABox) {
  Bytes target(10 * 10, std::byte{0xee});
  const Bytes source(4, std::byte{0x11});
  copy_elements(
      make_view(ByteView(source), DType::kUint8, {2, 2}),
      subview(make_view(MutableByteView(target), DType::kUint8, {10, 10}), {{3, 4}, {2, 2}}));
  for (std::size_t i = 0; i < 100; ++i) {
    const bool inside = i / 10 >= 3 && i / 10 < 5 && i % 10 >= 4 && i % 10 < 6;
    EXPECT_EQ(target[i], inside ? std::byte{0x11} : std::byte{0xee}) << i;
  }
}

TEST(Copy, SwapsKnownBytes) {
  const auto check = [](DType dtype, std::string_view in, std::string_view out) {
    Bytes target(in.size());
    copy_elements_swapped(make_view(as_bytes(in), dtype, {1}),
                          make_view(MutableByteView(target), dtype, {1}));
    EXPECT_EQ(as_text(target), out) << dtype_name(dtype);
  };
  check(DType::kUint8, "a", "a");
  check(DType::kFloat16, "ab", "ba");
  check(DType::kInt32, "abcd", "dcba");
  check(DType::kFloat64, "abcdefgh", "hgfedcba");
  check(DType::kComplex64, "abcdefgh", "dcbahgfe");
  check(DType::kComplex128, "abcdefghijklmnop", "hgfedcbaponmlkji");
}

TEST(Copy, Fills) {
  Random random(3);
  for (const std::size_t size : {1UL, 2UL, 3UL, 4UL, 8UL, 12UL, 16UL}) {
    Strided to = random_layout(random, {5, 7}, size, false);
    Strided expected = to;
    const Bytes element(size, std::byte{0x5a});
    expect_loop({5, 7}, {element, 0, {0, 0}}, expected, plain, size, DType::kOpaque);
    fill_elements(element, {.data = to.memory.data() + to.start,
                            .dtype = DType::kOpaque,
                            .element_size = size,
                            .shape = {5, 7},
                            .strides = to.strides});
    EXPECT_TRUE(to.memory == expected.memory) << size;
  }
}

TEST(Copy, RefusesWhatDoesNotMatch) {
  Bytes a(24);
  Bytes b(24);
  const ArrayView from = make_view(ByteView(a), DType::kInt32, {2, 3});
  const auto refuse = [&](const MutableArrayView& to) {
    try {
      copy_elements(from, to);
      ADD_FAILURE() << "copied";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kInvalidArgument);
    }
  };
  refuse(make_view(MutableByteView(b), DType::kInt32, {3, 2}));
  refuse(make_view(MutableByteView(b), DType::kInt32, {6}));
  refuse(make_view(MutableByteView(b), DType::kFloat32, {2, 3}));
  EXPECT_THROW(
      fill_elements(ByteView(a).first(3), make_view(MutableByteView(b), DType::kInt32, {2, 3})),
      Error);
  const ArrayView opaque{
      .data = a.data(), .dtype = DType::kOpaque, .element_size = 4, .shape = {6}, .strides = {4}};
  EXPECT_THROW(copy_elements_swapped(opaque, {.data = b.data(),
                                              .dtype = DType::kOpaque,
                                              .element_size = 4,
                                              .shape = {6},
                                              .strides = {4}}),
               Error);
}

}  // namespace
}  // namespace cairn
