// Reductions over flat arrays, in an order that does not depend on the processor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "shard/dtype.h"

namespace shoal::optim {

// Sum of the squares of `count` elements on the host, added up in double. float32 or float64.
double sum_of_squares(const void* data, DType dtype, std::int64_t count);

// The same without rounding: equal to the last bit however the data are cut, ordered and spread over ranks.
//
// It adds up in fixed point, over the whole range of double: a number of two thousand bits in digits of 32, each in an
// int64 that takes the carries of 2^31 additions. After R. Neal, "Fast Exact Summation Using Small and Large
// Superaccumulators", 2015. Squares of float32 are exact in double; of a float64 the square as double rounds it is
// what is added.
class ExactSumOfSquares {
 public:
  // 66 digits reach from 2^-1074 past 2^1024; two more take the carries of 2^64 such numbers.
  static constexpr int kDigits = 68;
  // The digits, least first, then how many infinities and how many NaNs there were.
  static constexpr int kLimbs = kDigits + 2;

  // `count` elements on the host, float32 or float64.
  void add(const void* data, DType dtype, std::int64_t count);

  // What `other` holds, which is left with its carries done.
  void add(ExactSumOfSquares& other);

  // Limbs of several sums, added element by element (by an int64 all_reduce in place, say), are the limbs of the sum
  // over all their data. Up to 2^31 sums may meet so before the next call here.
  std::span<std::int64_t, kLimbs> limbs();

  // The sum, rounded once, to nearest even. NaN where an element was one; infinite where a square or the sum is.
  double value() const;

 private:
  std::array<std::int64_t, kLimbs> limbs_{};
};

}  // namespace shoal::optim
