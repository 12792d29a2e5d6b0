#include "core/half.h"
#include "core/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shoal {
namespace {

bool is_nan(BFloat16 x) { return (x.bits & 0x7F80) == 0x7F80 && (x.bits & 0x007F) != 0; }
bool is_nan(Float16 x) { return (x.bits & 0x7C00) == 0x7C00 && (x.bits & 0x03FF) != 0; }

TEST(Half, EveryBFloat16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const BFloat16 x{static_cast<std::uint16_t>(bits)};
    const BFloat16 back = to_bfloat16(to_float(x));
    if (is_nan(x)) {
      ASSERT_TRUE(is_nan(back)) << bits;
    } else {
      ASSERT_EQ(back.bits, x.bits);
    }
  }
}

TEST(Half, EveryFloat16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Float16 x{static_cast<std::uint16_t>(bits)};
    const Float16 back = to_float16(to_float(x));
    if (is_nan(x)) {
      ASSERT_TRUE(is_nan(back)) << bits;
    } else {
      ASSERT_EQ(back.bits, x.bits);
    }
  }
}

TEST(Half, TiesGoToTheEvenNeighbour) {
  EXPECT_EQ(to_bfloat16(1.0f + 1.0f / 256).bits, 0x3F80) << "between 1 and 1 + 1/128";
  EXPECT_EQ(to_bfloat16(1.0f + 3.0f / 256).bits, 0x3F82) << "between 1 + 1/128 and 1 + 2/128";
  EXPECT_EQ(to_float16(1.0f + 1.0f / 2048).bits, 0x3C00);
  EXPECT_EQ(to_float16(1.0f + 3.0f / 2048).bits, 0x3C02);
}

TEST(Half, TheLargestValuesRoundToInfinity) {
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(to_bfloat16(kMax).bits, 0x7F80);
  EXPECT_EQ(to_bfloat16(-kMax).bits, 0xFF80);
  EXPECT_EQ(to_float(Float16{0x7BFF}), 65504.0f);
  EXPECT_EQ(to_float16(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7C00);
}

// The examples of the OCP specification, table 1.
TEST(Float8, ValuesOfTheSpecification) {
  const auto e4m3 = [](int bits) { return to_float(Float8E4M3{static_cast<std::uint8_t>(bits)}); };
  const auto e5m2 = [](int bits) { return to_float(Float8E5M2{static_cast<std::uint8_t>(bits)}); };
  EXPECT_EQ(e4m3(0x7E), 448.0f);
  EXPECT_EQ(e4m3(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3(0x07), 0.875f * 0x1p-6f);
  EXPECT_EQ(e4m3(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3(0xB8), -1.0f);
  EXPECT_TRUE(std::isnan(e4m3(0x7F)) && std::isnan(e4m3(0xFF)));
  EXPECT_TRUE(std::signbit(e4m3(0x80)) && e4m3(0x80) == 0);
  EXPECT_EQ(e5m2(0x7B), 57344.0f);
  EXPECT_EQ(e5m2(0x01), 0x1p-16f);
  EXPECT_TRUE(std::isinf(e5m2(0x7C)) && std::isnan(e5m2(0x7D)));
}

TEST(Half, ANanWithLowBitsAloneStaysOne) {
  EXPECT_TRUE(is_nan(to_bfloat16(std::bit_cast<float>(0x7F800001u))));
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::bit_cast<float>(0x7F800001u)))));
}

}  // namespace
}  // namespace shoal
