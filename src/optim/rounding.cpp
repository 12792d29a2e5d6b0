#include "optim/rounding.h"

#include "core/check.h"
#include "core/half.h"
#include "optim/simd.h"

namespace shoal::optim {
namespace {

template <typename To, typename From>
inline __attribute__((always_inline)) To rounded(From x) {
  if constexpr (std::is_same_v<To, BFloat16>)
    return to_bfloat16(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, Float16>)
    return to_float16(static_cast<float>(x));
  else
    return static_cast<To>(x);
}

template <typename From, typename To>
struct RoundLoop {
  static inline __attribute__((always_inline)) void run(const From* __restrict from, To* __restrict to,
                                                        std::int64_t count) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[i] = rounded<To>(from[i]);
  }
};

template <typename From>
void round_from(const From* from, void* to, DType dtype, std::int64_t count) {
  switch (dtype) {
    case DType::bfloat16: return run_widest<RoundLoop<From, BFloat16>>(from, static_cast<BFloat16*>(to), count);
    case DType::float16: return run_widest<RoundLoop<From, Float16>>(from, static_cast<Float16*>(to), count);
    case DType::float32: return run_widest<RoundLoop<From, float>>(from, static_cast<float*>(to), count);
    default: return run_widest<RoundLoop<From, double>>(from, static_cast<double*>(to), count);
  }
}

}  // namespace

void round_elements(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count) {
  SHOAL_ASSERT((from_dtype == DType::float32 || from_dtype == DType::float64) && is_floating(to_dtype));
  if (from_dtype == DType::float32)
    round_from(static_cast<const float*>(from), to, to_dtype, count);
  else
    round_from(static_cast<const double*>(from), to, to_dtype, count);
}

}  // namespace shoal::optim
