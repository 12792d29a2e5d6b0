#include "optim/reductions.h"

#include "core/check.h"
#include "optim/simd.h"

namespace shoal::optim {
namespace {

// Lane l adds the elements l, l + kLanes, …: the same sum whatever the width of the vectors, and no long chain of
// dependent additions.
constexpr std::int64_t kLanes = 32;

template <typename T>
struct SumOfSquares {
  static inline __attribute__((always_inline)) double run(const T* data, std::int64_t count) {
    double lanes[kLanes] = {};
    const std::int64_t whole = count - count % kLanes;
    for (std::int64_t block = 0; block < whole; block += kLanes) {
#pragma omp simd
      for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += double(data[block + l]) * double(data[block + l]);
    }
    for (std::int64_t i = whole; i < count; ++i) lanes[i - whole] += double(data[i]) * double(data[i]);
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    return sum;
  }
};

}  // namespace

double sum_of_squares(const void* data, DType dtype, std::int64_t count) {
  SHOAL_ASSERT(dtype == DType::float32 || dtype == DType::float64);
  return dtype == DType::float32 ? run_widest<SumOfSquares<float>>(static_cast<const float*>(data), count)
                                 : run_widest<SumOfSquares<double>>(static_cast<const double*>(data), count);
}

}  // namespace shoal::optim
