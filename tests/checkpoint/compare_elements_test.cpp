#include "checkpoint/compare_elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/half.h"

namespace shoal::checkpoint {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
ElementDifferences compare(DType dtype, const std::vector<T>& a, const std::vector<T>& b) {
  ElementDifferences total;
  compare_elements(dtype, reinterpret_cast<const std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data()),
                   static_cast<std::int64_t>(a.size()), 100, total);
  return total;
}

void expect(const ElementDifferences& found, std::int64_t count, std::int64_t first, double absolute, double relative) {
  EXPECT_EQ(found.count, count);
  EXPECT_EQ(found.first, first);
  EXPECT_EQ(found.max_absolute, absolute);
  EXPECT_EQ(found.max_relative, relative);
}

TEST(CompareElements, Floats) {
  expect(compare<float>(DType::float32, {1, 2, 3}, {1, 2, 3}), 0, -1, 0, 0);
  expect(compare<float>(DType::float32, {1, 2, -8}, {1, 4, -8.5}), 2, 101, 2, 0.5);
  expect(compare<double>(DType::float64, {1e300, 4}, {-1e300, 4}), 1, 100, 2e300, 2);
}

TEST(CompareElements, ZerosAndInfinitiesAndNans) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  expect(compare<float>(DType::float32, {0.f}, {-0.f}), 1, 100, 0, 0);
  expect(compare<float>(DType::float32, {nan, infinity}, {nan, infinity}), 0, -1, 0, 0);
  expect(compare<float>(DType::float32, {nan}, {std::nanf("7")}), 1, 100, 0, 0);
  expect(compare<float>(DType::float32, {nan}, {1}), 1, 100, kInfinity, kInfinity);
  expect(compare<float>(DType::float32, {infinity}, {-infinity}), 1, 100, kInfinity, kInfinity);
  expect(compare<float>(DType::float32, {infinity}, {3}), 1, 100, kInfinity, kInfinity);
}

TEST(CompareElements, HalfWidths) {
  expect(compare<std::uint16_t>(DType::float16, {to_float16(2.f).bits}, {to_float16(3.f).bits}), 1, 100, 1, 1.0 / 3);
  expect(compare<std::uint16_t>(DType::bfloat16, {to_bfloat16(-2.f).bits}, {to_bfloat16(2.f).bits}), 1, 100, 4, 2);
}

TEST(CompareElements, Integers) {
  constexpr auto kSmallest = std::numeric_limits<std::int64_t>::min(),
                 kLargest = std::numeric_limits<std::int64_t>::max();
  expect(compare<std::int64_t>(DType::int64, {kSmallest}, {kLargest}), 1, 100, std::ldexp(1.0, 64), 2);
  expect(compare<std::int32_t>(DType::int32, {5, -4}, {5, 4}), 1, 101, 8, 2);
  expect(compare<std::int8_t>(DType::int8, {0}, {-5}), 1, 100, 5, 1);
  expect(compare<std::uint8_t>(DType::uint8, {255}, {0}), 1, 100, 255, 1);
  expect(compare<std::uint8_t>(DType::boolean, {1, 0, 1}, {1, 1, 1}), 1, 101, 1, 1);
}

TEST(CompareElements, PiecesAddUp) {
  ElementDifferences total;
  const std::vector<std::int16_t> a{1, 2, 3}, b{1, 5, 4};
  const auto* x = reinterpret_cast<const std::byte*>(a.data());
  const auto* y = reinterpret_cast<const std::byte*>(b.data());
  for (int i = 0; i < 3; ++i) compare_elements(DType::int16, x + 2 * i, y + 2 * i, 1, i, total);
  expect(total, 2, 1, 3, 0.6);
}

}  // namespace
}  // namespace shoal::checkpoint
