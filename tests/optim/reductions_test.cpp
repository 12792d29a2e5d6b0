#include "optim/reductions.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::optim {
namespace {

TEST(SumOfSquares, IsExactForIntegersAtAnyLength) {
  for (const std::int64_t n : {0, 1, 31, 32, 33, 64, 1000}) {
    std::vector<float> floats;
    std::vector<double> doubles;
    double expected = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      floats.push_back(float(i % 17 - 8));
      doubles.push_back(double(i % 17 - 8));
      expected += double((i % 17 - 8) * (i % 17 - 8));
    }
    EXPECT_EQ(sum_of_squares(floats.data(), DType::float32, n), expected) << n;
    EXPECT_EQ(sum_of_squares(doubles.data(), DType::float64, n), expected) << n;
  }
}

// 2^24 ones and a float accumulator would stop at 2^24 - but the squares here would already overflow it.
TEST(SumOfSquares, AccumulatesInDouble) {
  const std::vector<float> large(1000, 1e30f);
  EXPECT_NEAR(sum_of_squares(large.data(), DType::float32, 1000) / (1000 * 1e60), 1.0, 1e-6);
}

}  // namespace
}  // namespace shoal::optim
