// Norms on the GPU: rounded, and to the bit.
#include "optim/device_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "optim/device_arrays.h"

namespace shoal::optim {
namespace {

using testing::OnDevice;

const std::vector<std::int64_t> kCounts{1, 0, 3, 8192, 8193, 100003, 1};

class DeviceSquaresTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_gpu()) GTEST_SKIP() << "no GPU here";
  }
};

// Of every magnitude, so that the exact sum uses most of its digits.
template <typename T>
std::vector<T> wild_values(std::int64_t count, std::mt19937_64& random) {
  constexpr int kReach = sizeof(T) == 4 ? 140 : 500;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    const int exponent = static_cast<int>(random() % (2 * kReach)) - kReach;
    value = static_cast<T>(std::ldexp(1.0 + static_cast<double>(random() % 1000003) / 1000003, exponent / 2));
    if (random() % 2 == 0) value = -value;
  }
  return values;
}

// Arrays of kCounts, of floats and of doubles in turn, the third without data.
struct Arrays {
  std::vector<OnDevice<float>> floats;
  std::vector<OnDevice<double>> doubles;
  std::vector<DeviceValues> values;
  ExactSumOfSquares exact;

  explicit Arrays(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      if (i == 2) {
        values.push_back({});
      } else if (i % 2 == 0) {
        const auto made = wild_values<float>(kCounts[i], random);
        exact.add(made.data(), DType::float32, kCounts[i]);
        floats.emplace_back(made, i % 4);
        values.push_back({floats.back().data(), DType::float32});
      } else {
        const auto made = wild_values<double>(kCounts[i], random);
        exact.add(made.data(), DType::float64, kCounts[i]);
        doubles.emplace_back(made, i % 3);
        values.push_back({doubles.back().data(), DType::float64});
      }
    }
  }
};

TEST_F(DeviceSquaresTest, SumIsRightAndTheSameEachTime) {
  DeviceSquares squares(kCounts);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Arrays arrays(seed);
    const double sum = squares.sum(arrays.values, nullptr), exact = arrays.exact.value();
    EXPECT_NEAR(sum, exact, 1e-12 * exact);
    EXPECT_EQ(sum, squares.sum(arrays.values, nullptr));
    EXPECT_EQ(sum, DeviceSquares(kCounts).sum(arrays.values, nullptr));
  }
}

TEST_F(DeviceSquaresTest, ExactSumIsTheHostsToTheBit) {
  DeviceSquares squares(kCounts);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Arrays arrays(seed);
    ExactSumOfSquares total;
    squares.add_exactly(arrays.values, total, nullptr);
    EXPECT_EQ(total.value(), arrays.exact.value());
    const auto found = total.limbs(), expected = arrays.exact.limbs();
    for (std::size_t l = 0; l < found.size(); ++l) EXPECT_EQ(found[l], expected[l]) << "limb " << l;
    squares.add_exactly(arrays.values, total, nullptr);  // once more: twice the sum
    EXPECT_EQ(total.value(), 2 * arrays.exact.value());
  }
}

TEST_F(DeviceSquaresTest, WhatIsNotFiniteIsFound) {
  const std::vector<std::int64_t> counts{10000};
  DeviceSquares squares(counts);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(10000, 1.0F);
    values[9871] = bad;
    const OnDevice<float> there(values);
    const std::vector<DeviceValues> arrays{{there.data(), DType::float32}};
    EXPECT_FALSE(std::isfinite(squares.sum(arrays, nullptr)));
    ExactSumOfSquares total;
    squares.add_exactly(arrays, total, nullptr);
    EXPECT_EQ(std::isnan(total.value()), std::isnan(bad));
    EXPECT_FALSE(std::isfinite(total.value()));
  }
}

TEST_F(DeviceSquaresTest, OfNothingIsZero) {
  DeviceSquares squares(std::vector<std::int64_t>{});
  EXPECT_EQ(squares.sum({}, nullptr), 0);
  ExactSumOfSquares total;
  squares.add_exactly({}, total, nullptr);
  EXPECT_EQ(total.value(), 0);
}

TEST_F(DeviceSquaresTest, DISABLED_Speed) {
  for (const std::int64_t count : {62'000'000LL, 780'000'000LL}) {
    const OnDevice<float> there(std::vector<float>(static_cast<std::size_t>(count), 1e-3F));
    const std::vector<std::int64_t> counts{count};
    const std::vector<DeviceValues> arrays{{there.data(), DType::float32}};
    DeviceSquares squares(counts);
    ExactSumOfSquares total;
    const double rounded = testing::milliseconds([&] { squares.sum(arrays, nullptr); });
    const double exact = testing::milliseconds([&] { squares.add_exactly(arrays, total, nullptr); });
    std::printf("squares of %lld floats: %.3f ms, %.0f GB/s; exactly %.3f ms, %.0f GB/s\n",
                static_cast<long long>(count), rounded, 4e-6 * static_cast<double>(count) / rounded, exact,
                4e-6 * static_cast<double>(count) / exact);
  }
}

}  // namespace
}  // namespace shoal::optim
