#include "report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace shoal::testing {
namespace {

using report::Axis;

TEST(AxisTest, TicksAreRoundAndAroundTheValues) {
  const Axis axis(0, 3.7, 5, 100, 0);
  EXPECT_EQ(axis.ticks(), (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(axis.pixel(0), 100);
  EXPECT_EQ(axis.pixel(4), 0);
  EXPECT_EQ(axis.pixel(1), 75);
  EXPECT_EQ(axis.text(3), "3");
  EXPECT_EQ(Axis(0, 0.9, 5, 0, 1).text(0.2), "0.2");
  EXPECT_EQ(Axis(0, 6e-4, 5, 0, 1).text(2e-4), "0.0002");
  EXPECT_EQ(Axis(0, 4e6, 5, 0, 1).text(1e6), "1000k");
  EXPECT_EQ(Axis(0, 4e5, 5, 0, 1).text(2.5e5), "250k");
  EXPECT_EQ(Axis(0, 7000, 5, 0, 1).text(2000), "2000");
}

TEST(AxisTest, OneValueAloneHasRoomToo) {
  for (const double value : {0.0, 5.0, -2.0, 1e-9, 1e12}) {
    const Axis axis(value, value, 5, 0, 100);
    EXPECT_LT(axis.low(), axis.high()) << value;
    EXPECT_GE(axis.pixel(value), 0) << value;
    EXPECT_LE(axis.pixel(value), 100) << value;
    EXPECT_GE(axis.ticks().size(), 2u) << value;
  }
}

TEST(AxisTest, AnyRangeHasAFewTicksThatCoverIt) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-12, 12), share(-1, 1);
  for (int i = 0; i < 2000; ++i) {
    const double scale = std::pow(10, exponent(random)), a = scale * share(random), b = scale * share(random);
    const Axis axis(std::min(a, b), std::max(a, b), 5, 0, 1);
    EXPECT_LE(axis.low(), std::min(a, b) + 1e-8 * scale);
    EXPECT_GE(axis.high(), std::max(a, b) - 1e-8 * scale);
    EXPECT_GE(axis.ticks().size(), 2u);
    EXPECT_LE(axis.ticks().size(), 8u);
  }
}

}  // namespace
}  // namespace shoal::testing
