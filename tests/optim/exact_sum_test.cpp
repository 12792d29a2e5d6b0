// ExactSumOfSquares against whole numbers of 128 bits, and the promise that order and cuts do not show.
// tests/interop has the whole range of double against Python's fractions.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "optim/reductions.h"

namespace shoal::optim {
namespace {

__extension__ typedef unsigned __int128 Whole;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T>
constexpr DType kType = sizeof(T) == 4 ? DType::float32 : DType::float64;

template <typename T>
double sum_of(const std::vector<T>& data) {
  ExactSumOfSquares sum;
  sum.add(data.data(), kType<T>, static_cast<std::int64_t>(data.size()));
  return sum.value();
}

// Any finite bit pattern: subnormal numbers as likely as large ones.
template <typename T, typename Bits>
std::vector<T> any_values(std::size_t count, std::mt19937_64& random) {
  std::vector<T> values;
  while (values.size() < count)
    if (const T x = std::bit_cast<T>(static_cast<Bits>(random())); std::isfinite(x)) values.push_back(x);
  return values;
}

TEST(ExactSumOfSquares, RoundsOnceToNearestEven) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> data;
    Whole exact = 0;
    for (int i = 0; i < 300; ++i) {
      const auto number = static_cast<std::int64_t>(random() >> 40) << random() % 30;  // 24 bits, squared 108
      data.push_back(static_cast<float>(number));
      exact += Whole(number) * Whole(number);
    }
    ASSERT_EQ(sum_of(data), static_cast<double>(exact)) << "round " << round;
  }
}

TEST(ExactSumOfSquares, BreaksTiesToEvenAndSeesTheLeastBitBelow) {
  const double large = 0x1p27, half = 0x1p0, least = 0x1p-537;  // squares 2^54, 1 and 2^-1074
  EXPECT_EQ(sum_of<double>({large, half}), 0x1p54);
  EXPECT_EQ(sum_of<double>({large, half, least}), 0x1p54) << "1 is a quarter of the last place, not half";
  EXPECT_EQ(sum_of<double>({large, half, half}), 0x1p54) << "half way: to even";
  EXPECT_EQ(sum_of<double>({large, half, half, least}), 0x1.0000000000001p54);
  EXPECT_EQ(sum_of<double>({large, half, half, half, half, half, half}), 0x1.0000000000002p54) << "half way: to even";
}

template <typename T, typename Bits>
void expect_same_bits_in_any_order() {
  std::mt19937_64 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<T> data = any_values<T, Bits>(500, random);
    if constexpr (sizeof(T) == 8)
      for (T& x : data) x = std::ldexp(x, -static_cast<int>(random() % 64) - std::max(0, std::ilogb(x) - 500));
    const double expected = sum_of(data);
    ASSERT_TRUE(std::isfinite(expected));
    std::shuffle(data.begin(), data.end(), random);
    ASSERT_EQ(sum_of(data), expected);
    ExactSumOfSquares parts;
    for (std::size_t begin = 0; begin < data.size();) {
      const std::size_t count = std::min<std::size_t>(random() % 100, data.size() - begin);
      parts.add(data.data() + begin, kType<T>, static_cast<std::int64_t>(count));
      begin += count;
    }
    ASSERT_EQ(parts.value(), expected);
  }
}

TEST(ExactSumOfSquares, OrderAndCutsDoNotShowInFloat32) { expect_same_bits_in_any_order<float, std::uint32_t>(); }
TEST(ExactSumOfSquares, OrderAndCutsDoNotShowInFloat64) { expect_same_bits_in_any_order<double, std::uint64_t>(); }

TEST(ExactSumOfSquares, RanksAddTheirLimbs) {
  std::mt19937_64 random(3);
  const std::vector<float> data = any_values<float, std::uint32_t>(1000, random);
  for (const std::size_t ranks : {1, 2, 3, 7, 64}) {
    std::vector<ExactSumOfSquares> sums(ranks);
    for (std::size_t i = 0; i < data.size(); ++i) sums[i % ranks].add(&data[i], DType::float32, 1);
    for (std::size_t r = 1; r < ranks; ++r)
      for (int l = 0; l < ExactSumOfSquares::kLimbs; ++l) sums[0].limbs()[l] += sums[r].limbs()[l];
    EXPECT_EQ(sums[0].value(), sum_of(data)) << ranks;
    sums[0].add(data.data(), DType::float32, 1000);  // and goes on from there
    EXPECT_EQ(sums[0].value(), 2 * sum_of(data)) << ranks;
  }
}

// As 2^31 ranks would leave them: no limb overflows, and the carries go all the way up.
TEST(ExactSumOfSquares, ManySumsMeetInTheLimbs) {
  const double data = 0x1.fffffffffffffp400;
  ExactSumOfSquares sum;
  sum.add(&data, DType::float64, 1);
  for (std::int64_t& limb : sum.limbs()) limb *= std::int64_t{1} << 31;
  EXPECT_EQ(sum.value(), std::ldexp(data * data, 31));
}

TEST(ExactSumOfSquares, SubnormalSquaresAndTheEndsOfTheRange) {
  EXPECT_EQ(sum_of<float>({}), 0.0);
  EXPECT_EQ(sum_of<float>({-0.0F, 0.0F}), 0.0);
  EXPECT_EQ(sum_of<float>({0x1p-149F, 0x1p-149F}), 0x1p-297);
  EXPECT_EQ(sum_of<double>(std::vector<double>(6, 0x1p-537)), 6 * 0x1p-1074) << "below the least normal double";
  EXPECT_EQ(sum_of<double>({0x1.8p-512, 0x1p-537}), 0x1.2p-1023 + 0x1p-1074);
  const double root = 0x1.fffffffffffffp511;  // its square is just below 2^1024
  EXPECT_EQ(sum_of<double>({root}), root * root);
  EXPECT_EQ(sum_of<double>({root, root}), kInfinity);
}

TEST(ExactSumOfSquares, InfinityAndNaNAreWhatTheyAre) {
  for (const double sign : {1.0, -1.0}) {
    EXPECT_EQ(sum_of<double>({1.0, sign * kInfinity, 2.0}), kInfinity);
    EXPECT_EQ(sum_of<float>({1.0F, static_cast<float>(sign * kInfinity)}), kInfinity);
    EXPECT_EQ(sum_of<double>({sign * 1e200, 1.0}), kInfinity) << "the square is";
  }
  EXPECT_TRUE(std::isnan(sum_of<double>({kInfinity, kNaN})));
  EXPECT_TRUE(std::isnan(sum_of<double>({kNaN, kInfinity})));
  EXPECT_TRUE(std::isnan(sum_of<float>({-std::numeric_limits<float>::quiet_NaN()})));
}

}  // namespace
}  // namespace shoal::optim
