// box_test.cc -- box arithmetic and views.
#include <cairn/array/box.h>
#include <cairn/error.h>
#include <gmock/gmock.h>

#include <limits>
#include <numeric>

namespace cairn {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

template <class F>
std::string error_of(Code code, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

TEST(Box, Intersect) {
  const Box a{{0, 4}, {8, 4}};
  EXPECT_EQ(intersect(a, {{6, 0}, {5, 5}}), (Box{{6, 4}, {2, 1}}));
  EXPECT_EQ(intersect(a, a), a);
  EXPECT_EQ(intersect(a, {{8, 4}, {1, 1}}), std::nullopt) << "touching is not sharing";
  EXPECT_EQ(intersect(a, {{0, 4}, {0, 4}}), std::nullopt) << "an empty box shares nothing";
  EXPECT_EQ(intersect({}, {}), Box{}) << "rank 0 is one element";
  EXPECT_EQ(intersect({{kMax - 1}, {kMax}}, {{0}, {kMax}}), (Box{{kMax - 1}, {1}}));
  error_of(Code::kInvalidArgument, [&] { intersect(a, {{0}, {1}}); });
}

TEST(Box, RelativeTo) {
  EXPECT_EQ(relative_to({{6, 4}, {2, 1}}, Shape{5, 4}), (Box{{1, 0}, {2, 1}}));
  EXPECT_EQ(relative_to({{1}, {3}}, Shape{2}), (Box{{-1}, {3}}));
  EXPECT_EQ(relative_to({}, {}), Box{});
  error_of(Code::kInvalidArgument, [] { relative_to({{1}, {3}}, Shape{2, 2}); });
}

TEST(Box, Contains) {
  const Box outer{{2, 2}, {4, 4}};
  EXPECT_TRUE(contains(outer, outer));
  EXPECT_TRUE(contains(outer, {{3, 5}, {3, 1}}));
  EXPECT_TRUE(contains(outer, {{6, 2}, {0, 4}}));
  EXPECT_FALSE(contains(outer, {{1, 2}, {1, 1}}));
  EXPECT_FALSE(contains(outer, {{3, 5}, {3, 2}}));
  EXPECT_FALSE(contains({{std::numeric_limits<std::int64_t>::min()}, {2}}, {{kMax}, {kMax}}));
}

TEST(Box, CheckInsideNamesTheDimension) {
  EXPECT_NO_THROW(check_inside({{0, 0}, {3, 4}}, Shape{3, 4}));
  EXPECT_NO_THROW(check_inside({{3, 4}, {0, 0}}, Shape{3, 4}));
  EXPECT_NO_THROW(check_inside({}, {}));
  EXPECT_EQ(error_of(Code::kOutOfRange,
                     [] {
                       check_inside({{0, 2}, {3, 3}}, Shape{3, 4});
                     }),
            "dimension 1 of box [0:3, 2:5] is outside shape (3, 4)");
  error_of(Code::kOutOfRange, [] { check_inside({{-1}, {1}}, Shape{3}); });
  error_of(Code::kOutOfRange, [] { check_inside({{1}, {-1}}, Shape{3}); });
  error_of(Code::kOutOfRange, [] { check_inside({{4}, {0}}, Shape{3}); });
  error_of(Code::kOutOfRange, [] { check_inside({{kMax}, {kMax}}, Shape{3}); });
  error_of(Code::kInvalidArgument, [] { check_inside({{0}, {1}}, Shape{3, 4}); });
  error_of(Code::kInvalidArgument, [] { check_inside({{0}, {1, 1}}, Shape{3, 4}); });
}

TEST(Box, Text) {
  EXPECT_EQ(box_text({{0, 4}, {8, 2}}), "[0:8, 4:6]");
  EXPECT_EQ(box_text({}), "[]");
}

TEST(View, SubviewMovesNoBytes) {
  Bytes bytes(24);
  const MutableArrayView whole = make_view(MutableByteView(bytes), DType::kInt16, {3, 4});
  const MutableArrayView part = subview(whole, {{1, 2}, {2, 2}});
  EXPECT_EQ(part.data, bytes.data() + 8 + 4);
  EXPECT_EQ(part.shape, (Shape{2, 2}));
  EXPECT_EQ(part.strides, whole.strides);
  EXPECT_EQ(as_const(part).data, part.data);
  EXPECT_EQ(subview(as_const(whole), {{3, 0}, {0, 4}}).shape, (Shape{0, 4}));
  error_of(Code::kOutOfRange, [&] { subview(whole, {{1, 2}, {2, 3}}); });
}

TEST(View, MakeViewCountsItsBytes) {
  const Bytes bytes(24);
  EXPECT_EQ(make_view(ByteView(bytes), DType::kFloat64, {3}).strides,
            (std::vector<std::int64_t>{8}));
  EXPECT_EQ(make_view(ByteView{}, DType::kFloat64, {0}).data, nullptr);
  error_of(Code::kInvalidArgument, [&] { make_view(ByteView(bytes), DType::kFloat64, {4}); });
  error_of(Code::kInvalidArgument, [&] { make_view(ByteView(bytes), DType::kComplex128, {1}); });
  error_of(Code::kInvalidArgument, [&] { make_view(ByteView(bytes), DType::kOpaque, {1}); });
}

// The flat index of each element of a box, in C order.
std::vector<std::int64_t> elements_of(const Box& box, const Shape& shape) {
  std::vector<std::int64_t> elements;
  const std::int64_t n = element_count(box.shape);
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t rest = i;
    std::int64_t stride = 1;
    std::int64_t flat = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      flat += (box.origin[d] + rest % box.shape[d]) * stride;
      rest /= box.shape[d];
      stride *= shape[d];
    }
    elements.push_back(flat);
  }
  return elements;
}

TEST(BoxesOfRun, CoverEveryRunOnceInOrderWithFewBoxes) {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 4}, Shape{2, 3, 4}, Shape{1, 5, 1},
                             Shape{4, 1, 3, 2}, Shape{2, 2, 2, 2}}) {
    const std::int64_t n = element_count(shape);
    for (std::int64_t begin = 0; begin < n; ++begin) {
      for (std::int64_t end = begin; end <= n; ++end) {
        const auto boxes = boxes_of_run(shape, begin, end);
        EXPECT_LE(boxes.size(), 2 * shape.size() + 1);
        std::vector<std::int64_t> seen;
        for (const Box& box : boxes) {
          const auto elements = elements_of(box, shape);
          seen.insert(seen.end(), elements.begin(), elements.end());
        }
        std::vector<std::int64_t> wanted(static_cast<std::size_t>(end - begin));
        std::iota(wanted.begin(), wanted.end(), begin);
        ASSERT_EQ(seen, wanted) << shape_text(shape) << " " << begin << ":" << end;
      }
    }
  }
}

TEST(BoxesOfRun, NothingOfAnEmptyArray) { EXPECT_TRUE(boxes_of_run(Shape{3, 0}, 0, 0).empty()); }

}  // namespace
}  // namespace cairn
