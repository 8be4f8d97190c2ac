// rearrangement_test.cc -- rearranged arrays: random boxes of random patterns against the elements
// that the pattern names, read directly, staged, and in pieces.
#include <cairn/array/box.h>
#include <cairn/tools/transform/lazy_array.h>
#include <cairn/tools/transform/lazy_pieces.h>
#include <cairn/tools/transform/rearrangement.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/matchers.h"
#include "tests/support/seed.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::make_array;
using testing::MemoryCheckpoint;

// A random pattern, the extents of its parts, and the axes of both sides.
struct Pattern {
  std::string text;
  std::vector<std::int64_t> extents;
  Rearrangement parsed;
};

std::string side(const std::vector<std::size_t>& order, std::mt19937_64& random) {
  std::string text;
  for (std::size_t i = 0; i < order.size();) {
    const std::size_t n = std::min<std::size_t>(1 + random() % 3, order.size() - i);
    std::string names;
    for (std::size_t k = 0; k < n; ++k)
      names += std::string(k == 0 ? "" : " ") + static_cast<char>('a' + order[i + k]);
    text += (text.empty() ? "" : " ") + (n > 1 ? "(" + names + ")" : names);
    if (random() % 6 == 0) text += " 1";
    i += n;
  }
  return text;
}

Pattern random_pattern(std::mt19937_64& random) {
  std::vector<std::size_t> order(1 + random() % 5);
  std::iota(order.begin(), order.end(), 0U);
  Pattern out;
  for (std::size_t i = 0; i < order.size(); ++i)
    out.extents.push_back(1 + static_cast<std::int64_t>(random() % 4));
  out.text = side(order, random) + " -> ";
  std::shuffle(order.begin(), order.end(), random);
  out.text += side(order, random);
  out.parsed = parse_rearrangement(out.text);
  return out;
}

// The index of a part at a place of an array with these axes.
std::vector<std::int64_t> parts_at(const Rearrangement::Axes& axes, const Shape& at,
                                   const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> parts(extents.size());
  for (std::size_t d = 0; d < axes.size(); ++d) {
    std::int64_t rest = at[d];
    for (std::size_t i = axes[d].size(); i-- > 0;) {
      parts[axes[d][i]] = rest % extents[axes[d][i]];
      rest /= extents[axes[d][i]];
    }
  }
  return parts;
}

std::int64_t number_of(const std::vector<std::int64_t>& parts, const Rearrangement::Axes& axes,
                       const std::vector<std::int64_t>& extents) {
  std::int64_t number = 0;
  for (const auto& axis : axes)
    for (const std::size_t part : axis) number = number * extents[part] + parts[part];
  return number;
}

TEST(Rearrangement, MovesEveryElementToItsPlace) {
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 300; ++round) {
    const Pattern pattern = random_pattern(random);
    SCOPED_TRACE(pattern.text);
    Shape shape;
    for (const auto& axis : pattern.parsed.from) {
      std::int64_t extent = 1;
      for (const std::size_t part : axis) extent *= pattern.extents[part];
      shape.push_back(extent);
    }
    MemoryCheckpoint source;
    std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
    std::iota(values.begin(), values.end(), 0.0F);
    source.add("x", make_array(DType::kFloat32, shape, values));
    std::vector<std::optional<std::int64_t>> known(pattern.extents.begin(), pattern.extents.end());
    const LazyPtr array = lazy_rearrange(lazy_stored(source, 0), pattern.parsed, known);
    const std::uint64_t memory = 8ULL << (random() % 12);
    for (int b = 0; b < 4; ++b) {
      Box box;
      for (const std::int64_t extent : array->shape()) {
        const auto first = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(extent));
        box.origin.push_back(b == 0 ? 0 : first);
        box.shape.push_back(b == 0
                                ? extent
                                : 1 + static_cast<std::int64_t>(
                                          random() % static_cast<std::uint64_t>(extent - first)));
      }
      const Array found = read_piece(*array, box, {source, memory, default_executor()});
      const auto* numbers = reinterpret_cast<const float*>(found.bytes().data());
      Shape at(box.rank());
      for (std::int64_t i = 0; i < element_count(box.shape); ++i) {
        std::int64_t rest = i;
        for (std::size_t d = box.rank(); d-- > 0; rest /= box.shape[d])
          at[d] = box.origin[d] + rest % box.shape[d];
        const auto parts = parts_at(pattern.parsed.to, at, pattern.extents);
        ASSERT_EQ(numbers[i],
                  static_cast<float>(number_of(parts, pattern.parsed.from, pattern.extents)));
      }
    }
  }
}

TEST(Rearrangement, SolvesExtents) {
  const Rearrangement r = parse_rearrangement("(h c p) e -> e h (p c)");
  EXPECT_EQ(solve_extents(r, {24, 5}, {3, 2, std::nullopt, std::nullopt}),
            (std::vector<std::int64_t>{3, 2, 4, 5}));
  EXPECT_THAT(
      [&] {
        solve_extents(r, {24, 5}, {5, 2, {}, {}});
      },
      FailsWith(Code::kInvalidArgument, "cannot be divided by 10"));
  EXPECT_THAT(
      [&] {
        solve_extents(r, {24, 5}, {3, {}, {}, {}});
      },
      FailsWith(Code::kInvalidArgument, "'c' and 'p' are not known"));
  EXPECT_THAT(
      [&] {
        solve_extents(r, {24, 5}, {3, 2, 5, {}});
      },
      FailsWith(Code::kInvalidArgument, "expected 30 (h = 3, c = 2, p = 5)"));
  EXPECT_THAT(
      [&] {
        solve_extents(r, {24}, {3, 2, {}, {}});
      },
      FailsWith(Code::kInvalidArgument, "expected 2 dimensions"));
  EXPECT_THAT(
      [&] {
        solve_extents(r, {24, 5}, {0, 2, {}, {}});
      },
      FailsWith(Code::kInvalidArgument, "h = 0"));
}

TEST(Rearrangement, RefusesOtherPatterns) {
  const std::pair<const char*, const char*> cases[] = {
      {"a b -> a", "'b' is missing on the right side"},
      {"a -> a b", "'b' must appear once on each side"},
      {"a a -> a", "appears twice"},
      {"a b -> a a b", "'a' must appear once"},
      {"(a b -> a b", "a bracket is not closed"},
      {"((a) b) -> a b", "not '('"},
      {"a) -> a", "not ')'"},
      {"a ... -> a", "not '.'"},
      {"2 a -> a", "not '2'"},
  };
  for (const auto& c : cases)
    EXPECT_THAT([&] { parse_rearrangement(c.first); }, FailsWith(Code::kInvalidArgument, c.second))
        << c.first;
}

}  // namespace
}  // namespace cairn
