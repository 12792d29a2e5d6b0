#include "models/rope.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <numbers>

#include "fused/rope.h"

namespace shoal::models {
namespace {

constexpr std::int64_t kSize = 16;

// x [n, T, heads, kSize]
at::Tensor rotate(const at::Tensor& x, const RopeTables& tables) { return fused::rotate(x, tables.cos, tables.sin); }

TEST(Rope, TurnsEachPairByPositionTimesFrequency) {
  const at::Tensor x = torch::randn({1, 5, 1, kSize});
  const at::Tensor turned = rotate(x, rope_tables({kSize, 10000, 1}, 5, x));
  for (int t = 0; t < 5; ++t) {
    for (int i = 0; i < kSize / 2; ++i) {
      const double angle = t * std::pow(10000.0, -2.0 * i / kSize);
      const auto a = x[0][t][0][i].item<double>(), b = x[0][t][0][i + kSize / 2].item<double>();
      EXPECT_NEAR(turned[0][t][0][i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(turned[0][t][0][i + kSize / 2].item<double>(), b * std::cos(angle) + a * std::sin(angle), 1e-5);
    }
  }
}

// Two equal vectors' product depends on how far apart they stand alone.
TEST(Rope, ProductsDependOnDistanceAlone) {
  const at::Tensor x = torch::randn({1, 1, 1, kSize}).expand({1, 12, 1, kSize});
  const at::Tensor turned = rotate(x, rope_tables({kSize, 500000, 8}, 12, x))[0].select(1, 0);
  const at::Tensor products = turned.matmul(turned.t());
  for (int distance = 1; distance < 12; ++distance) {
    const at::Tensor same = products.diagonal(distance);
    EXPECT_LT((same - same[0]).abs().max().item<double>(), 1e-4) << distance;
  }
}

TEST(Rope, ScalingStretchesLongWavesAlone) {
  const at::Tensor like = torch::zeros({1});
  // Position 1 turns by the frequency itself.
  const auto frequencies = [&](double scaling) {
    return rope_tables({kSize, 500000, scaling}, 2, like).sin[1].slice(0, 0, kSize / 2).asin();
  };
  const at::Tensor plain = frequencies(1), stretched = frequencies(8);
  for (int i = 1; i < kSize / 2; ++i) {  // the first turns by more than a quarter, where asin() has no answer
    const double waves = 8192 * plain[i].item<double>() / (2 * std::numbers::pi);
    const double ratio = plain[i].item<double>() / stretched[i].item<double>();
    if (waves > 4) {
      EXPECT_NEAR(ratio, 1, 1e-6) << i;
    } else if (waves < 1) {
      EXPECT_NEAR(ratio, 8, 1e-5) << i;
    } else {
      EXPECT_GT(ratio, 1) << i;
      EXPECT_LT(ratio, 8) << i;
    }
  }
}

TEST(Rope, TablesAreComputedInFp32AndGivenTheModelsType) {
  const RopeTables exact = rope_tables({kSize, 10000, 1}, 300, torch::zeros({1}));
  const RopeTables narrow = rope_tables({kSize, 10000, 1}, 300, torch::zeros({1}, torch::kBFloat16));
  EXPECT_EQ(narrow.cos.sizes(), (std::vector<std::int64_t>{300, kSize}));
  EXPECT_TRUE(at::equal(narrow.cos, exact.cos.to(torch::kBFloat16)));
  EXPECT_TRUE(at::equal(narrow.sin, exact.sin.to(torch::kBFloat16)));
}

}  // namespace
}  // namespace shoal::models
