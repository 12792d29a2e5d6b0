#include "core/counter_normal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/hash.h"

namespace shoal {
namespace {

// The vectors that its authors publish (Random123, kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The formula of the header, with the system's functions in double precision.
double exact(std::uint64_t key, std::uint64_t n) {
  const std::uint64_t counter = n / 1024 * 256 + n % 256;
  const auto words = philox4x32({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0},
                                {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
  const std::size_t word = n / 256 % 4, pair = word / 2 * 2;
  const double u1 = ((words[pair] >> 8) + 1) * 0x1p-24, u2 = (words[pair + 1] >> 8) * 0x1p-24;
  const double radius = std::sqrt(-2 * std::log(u1)), angle = 2 * M_PI * u2;
  return radius * (word % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

TEST(FillNormal, IsBoxMullerOfPhilox) {
  constexpr std::uint64_t kKey = 0x0123456789abcdef;
  std::vector<float> values(100'000);
  for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{1} << 42}) {  // beyond 32 bits of counter
    fill_normal(values, kKey, begin, 0.5F);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], 0.5 * exact(kKey, static_cast<std::uint64_t>(begin) + i), 1e-6) << begin << " + " << i;
  }
}

TEST(FillNormal, MakesAnyPartAlike) {
  std::vector<float> whole(10'000), part(777);
  fill_normal(whole, 5, 0, 0.02F);
  for (const std::int64_t begin : {0, 1, 255, 1023, 1024, 5000, 9223}) {
    fill_normal(part, 5, begin, 0.02F);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin;
  }
}

// The largest distance from the distribution function, times sqrt(n), is beyond 1.95 once in a thousand times
// (Kolmogorov); the seed is fixed.
TEST(FillNormal, IsNormal) {
  std::vector<float> values(1 << 20);
  fill_normal(values, 99, 0, 1);
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double apart = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double below = 0.5 * std::erfc(-values[i] / std::sqrt(2.0)), rank = static_cast<double>(i);
    apart = std::max({apart, std::abs(below - rank / n), std::abs(below - (rank + 1) / n)});
  }
  EXPECT_LT(apart * std::sqrt(n), 1.95);
  EXPECT_GT(values.back(), 4.5F);
}

// Weights are part of what a run means: they must not change with the compiler or the processor.
TEST(FillNormal, KeepsItsBits) {
  std::vector<float> values(1 << 16);
  fill_normal(values, 2026, 0, 0.02F);
  std::uint64_t hash = 0;
  for (const float value : values) hash = hash_combine(hash, std::bit_cast<std::uint32_t>(value));
  EXPECT_EQ(hash, 7103636299555989015u);
}

}  // namespace
}  // namespace shoal
