// slice_spec_test.cc -- TensorFlow's text of a slice, both ways.
#include "tests/support/matchers.h"

#include <cairn/formats/tensorflow/sharding/slice_spec.h>
#include <cairn/tensorflow.h>

#include <limits>

namespace cairn {
namespace {

using testing::FailsWith;

TEST(SliceSpec, BothWays) {
  const ShapeAndSlice spec = parse_slice_spec("4 3 5 0,4:-:3,2");
  EXPECT_EQ(spec.full_shape, (Shape{4, 3, 5}));
  EXPECT_EQ(slice_box(spec), (Box{{0, 0, 3}, {4, 3, 2}}));
  EXPECT_EQ(slice_spec_text(spec), "4 3 5 0,4:-:3,2");
  EXPECT_EQ(slice_spec_text(spec.full_shape, slice_box(spec)), "4 3 5 0,4:0,3:3,2");
  EXPECT_EQ(slice_spec_text({}, Box{}), "");
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const Shape least = {kMin};
  EXPECT_EQ(slice_spec_text(least, Box{{kMin}, {kMin}}),
            "-9223372036854775808 -9223372036854775808,-9223372036854775808");
}

struct Refused {
  std::string text, message;
};

// covers: sharding.ShardableTensor
// note: A slice beyond 63 bits or with a negative extent is an error. TensorFlow aborts the
// process.
TEST(SliceSpec, RefusesInTensorFlowsWords) {
  const std::vector<Refused> refused = {
      {"", "Need least two elements in shape_and_slice specification: "},
      {"4", "Need least two elements in shape_and_slice specification: 4"},
      {"4 x 5 -:-:-", "Non numerical dimension in shape_and_slice: 4 x 5 -:-:-"},
      {"4  5 -:-", "Non numerical dimension in shape_and_slice: 4  5 -:-"},
      {"-4 -", "Non numerical dimension in shape_and_slice: -4 -"},
      {"4 3", "Expected a pair of numbers or '-' but got '3': string = 3"},
      {"4 0,1,2", "Expected a pair of numbers or '-' but got '0,1,2': string = 0,1,2"},
      {"x 0,y", "Expected a pair of numbers or '-' but got '0,y': string = 0,y"},
      {"4 0,0",
       "Expected non-negative start and positive length but got start = 0, length = 0: string = "
       "0,0"},
      {"4 -1,2",
       "Expected non-negative start and positive length but got start = -1, length = 2: string = "
       "-1,2"},
      {"4 3 -", "Mismatching ranks: shape = [4,3], slice = -"},
      {"4 - ", "Non numerical dimension in shape_and_slice: 4 - "},
      {"4 ", "Mismatching ranks: shape = [4], slice = "},
      {"4 3 1,3:3,1", "Extent in dimension 1 out of bounds: shape = [4,3], slice = 1,3:3,1"},
      {"4 9223372036854775807,9223372036854775807", "Extent in dimension 0 out of bounds"},
      {"4 9223372036854775808,1", "Expected a pair of numbers"}};
  for (const Refused& each : refused)
    EXPECT_THAT([&] { parse_slice_spec(each.text); },
                FailsWith(Code::kInvalidArgument, each.message))
        << each.text;
}

TEST(SliceSpec, TakesLongTexts) {
  std::string text, slice;
  for (int i = 0; i < 100'000; ++i) {
    text += "1 ";
    slice += i == 0 ? "-" : ":-";
  }
  EXPECT_EQ(slice_spec_text(parse_slice_spec(text + slice)), text + slice);
}

}  // namespace
}  // namespace cairn
