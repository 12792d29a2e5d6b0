// Rounding of whole arrays against the conversions of one element.
#include "optim/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "core/half.h"
#include "optim/optimizer.h"

namespace shoal::optim {
namespace {

// Any bits, and what lies between two numbers of 16 bits, of which there are too few among those.
std::vector<float> floats(std::size_t count) {
  std::mt19937 random(17);
  std::vector<float> values{0.0F,
                            -0.0F,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(),
                            65504.0F,
                            65519.9F,
                            65520.0F,
                            0x1p-24F,
                            0x1p-25F,
                            0x1.8p-25F,
                            3.4e38F};
  while (values.size() < count) {
    const auto bits = static_cast<std::uint32_t>(random());
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(std::bit_cast<float>((bits & 0xFFFF0000U) | 0x8000U));
    values.push_back(static_cast<float>(static_cast<std::int32_t>(bits % 4096) - 2048) * 0x1p-13F);
  }
  values.resize(count);
  return values;
}

template <typename From>
void check(std::size_t count) {
  const std::vector<float> made = floats(count);
  const std::vector<From> from(made.begin(), made.end());
  const DType dtype = sizeof(From) == 4 ? DType::float32 : DType::float64;
  const auto n = static_cast<std::int64_t>(count);
  std::vector<std::uint16_t> brain(count + 1, 0xABCD), half(count + 1, 0xABCD);
  round_elements(from.data(), dtype, brain.data(), DType::bfloat16, n);
  round_elements(from.data(), dtype, half.data(), DType::float16, n);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(from[i]);
    EXPECT_EQ(brain[i], to_bfloat16(value).bits) << value;
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(to_float(Float16{half[i]})));
    else
      EXPECT_EQ(half[i], to_float16(value).bits) << value;
  }
  EXPECT_EQ(brain[count], 0xABCD);
  EXPECT_EQ(half[count], 0xABCD);
}

TEST(RoundElements, AreThoseOfOneElement) {
  for (const std::size_t count : {0, 1, 15, 16, 17, 100003}) {
    check<float>(count);
    check<double>(count);
  }
}

TEST(RoundElements, BetweenWideTypes) {
  const std::vector<double> wide{1.0 / 3, -1e300, 0x1p-30};
  std::vector<float> narrow(3);
  round_elements(wide.data(), DType::float64, narrow.data(), DType::float32, 3);
  EXPECT_EQ(narrow, (std::vector<float>{1.0F / 3, -std::numeric_limits<float>::infinity(), 0x1p-30F}));
  std::vector<double> again(3);
  round_elements(narrow.data(), DType::float32, again.data(), DType::float64, 3);
  EXPECT_EQ(again[0], static_cast<double>(1.0F / 3));
}

// A step that rounds is the step, then the rounding: also over more elements than are rounded at once.
TEST(RoundElements, WithAStep) {
  for (const std::int64_t count : {1LL, 2047LL, 5003LL}) {
    const auto n = static_cast<std::size_t>(count);
    std::vector<float> param(n), grad(n), once(n, 0.5F), twice(n, 0.25F);
    for (std::size_t i = 0; i < n; ++i) {
      param[i] = 1 + std::sin(static_cast<float>(i));
      grad[i] = std::cos(3 * static_cast<float>(i));
    }
    std::vector<float> param2 = param, once2 = once, twice2 = twice;
    std::vector<std::uint16_t> rounded(n), expected(n);
    const auto rule = make_optimizer({.name = "adamw", .weight_decay = 0.1});
    FlatSpan span{.param = param.data(), .grad = grad.data(), .state = {once.data(), twice.data()}, .count = count};
    span.rounded = rounded.data();
    span.rounded_dtype = DType::bfloat16;
    rule->step(span, 3, 0.01, 0.5);
    rule->step({.param = param2.data(), .grad = grad.data(), .state = {once2.data(), twice2.data()}, .count = count}, 3,
               0.01, 0.5);
    round_elements(param2.data(), DType::float32, expected.data(), DType::bfloat16, count);
    EXPECT_EQ(param, param2);
    EXPECT_EQ(twice, twice2);
    EXPECT_EQ(rounded, expected);
  }
}

}  // namespace
}  // namespace shoal::optim
