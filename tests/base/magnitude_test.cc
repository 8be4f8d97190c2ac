#include <cairn/base/magnitude.h>

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

namespace cairn {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Magnitude, HasTheSameBitsOnEveryProcessor) {
  EXPECT_EQ(magnitude(3, -4), 5);
  EXPECT_EQ(magnitude(0x1.cd5716b6cd5d3p-3, 0x1.205c075bda595p-2), 0x1.7144f7206a38p-2);
}

TEST(Magnitude, NeitherOverflowsNorVanishes) {
  EXPECT_EQ(magnitude(0x1.8p1000, -0x1p1001), 0x1.4p1001);
  EXPECT_EQ(magnitude(0x1.8p-1000, 0x1p-999), 0x1.4p-999);
  EXPECT_EQ(magnitude(3 * 0x1p-1074, 4 * 0x1p-1074), 5 * 0x1p-1074);
  EXPECT_EQ(magnitude(-0x1p-1074, 0), 0x1p-1074);
  EXPECT_EQ(magnitude(0x1p-1074, 0x1p1000), 0x1p1000);
  EXPECT_EQ(magnitude(-0.0, 0), 0);
  EXPECT_FALSE(std::signbit(magnitude(-0.0, -0.0)));
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(magnitude(most, 0), most);
  EXPECT_EQ(magnitude(most, most), kInf);
}

TEST(Magnitude, InfinityIsLargerThanNan) {
  EXPECT_EQ(magnitude(-kInf, kNan), kInf);
  EXPECT_EQ(magnitude(kNan, kInf), kInf);
  EXPECT_TRUE(std::isnan(magnitude(kNan, 1)));
  EXPECT_TRUE(std::isnan(magnitude(0x1p1000, kNan)));
}

TEST(Magnitude, IsThatOfTheCLibraryButForRounding) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> part(-1, 1);
  std::uniform_int_distribution<int> exponent(-1000, 1000);
  for (int i = 0; i < 100'000; ++i) {
    const int scale = exponent(random);
    const double x = std::scalbn(part(random), scale);
    const double y = std::scalbn(part(random), scale);
    const double expected = std::hypot(x, y);
    EXPECT_LE(std::fabs(magnitude(x, y) - expected), 2 * 0x1p-52 * expected) << x << ' ' << y;
  }
}

}  // namespace
}  // namespace cairn
