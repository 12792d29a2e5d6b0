#include "optim/rounding.h"

#include "core/check.h"
#include "core/half.h"
#include "optim/simd.h"

#if SHOAL_X86
#include <immintrin.h>
#endif

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

#if SHOAL_X86

// To 16 bits by hand: compilers use a small part of a vector for it. Each converts sixteen at a time, gives the bits of
// core/half.h (but for the digits of a NaN in float16), and leaves the number of elements that are done.
#define SHOAL_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq")))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC 12's own header of intrinsics

SHOAL_AVX512 std::int64_t round_sixteens(const float* from, BFloat16* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i bits = _mm512_loadu_si512(from + i);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i half = _mm512_add_epi32(_mm512_and_si512(high, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7FFF));
    const __m512i near = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __m512 value = _mm512_castsi512_ps(bits);
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(near, nan, high, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm512_cvtepi32_epi16(result));
  }
  return i;
}

SHOAL_AVX512 std::int64_t round_sixteens(const float* from, Float16* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  return i;
}

#pragma GCC diagnostic pop
#undef SHOAL_AVX512

template <typename To>
void round_to_half(const float* from, To* to, std::int64_t count) {
  const std::int64_t done = has_avx512() ? round_sixteens(from, to, count) : 0;
  run_widest<RoundLoop<float, To>>(from + done, to + done, count - done);
}

#else

template <typename To>
void round_to_half(const float* from, To* to, std::int64_t count) {
  run_widest<RoundLoop<float, To>>(from, to, count);
}

#endif

template <typename To>
void round_to_half(const double* from, To* to, std::int64_t count) {
  run_widest<RoundLoop<double, To>>(from, to, count);
}

template <typename From>
void round_from(const From* from, void* to, DType dtype, std::int64_t count) {
  switch (dtype) {
    case DType::bfloat16: return round_to_half(from, static_cast<BFloat16*>(to), count);
    case DType::float16: return round_to_half(from, static_cast<Float16*>(to), count);
    case DType::float32: return run_widest<RoundLoop<From, float>>(from, static_cast<float*>(to), count);
    default: return run_widest<RoundLoop<From, double>>(from, static_cast<double*>(to), count);
  }
}

}  // namespace

void round_elements(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count) {
  SHOAL_ASSERT((from_dtype == DType::float32 || from_dtype == DType::float64) && is_floating(to_dtype) &&
               !is_float8(to_dtype));
  if (from_dtype == DType::float32)
    round_from(static_cast<const float*>(from), to, to_dtype, count);
  else
    round_from(static_cast<const double*>(from), to, to_dtype, count);
}

}  // namespace shoal::optim
