// Folding as in V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel
// 2009, in four lanes of 128 bits at a time.
#include "core/crc32c_wide.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace shoal {
namespace {

#define SHOAL_WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))

constexpr std::uint32_t power(int exponent) {  // x^exponent
  std::uint32_t result = kCrc32cOne;
  for (int i = 0; i < exponent; ++i) result = crc32c_multiply(result, kCrc32cOne >> 1);
  return result;
}

// The product of two reflected factors is reflected too, but for one bit: hence one power less.
constexpr long long factor(int bits) {
  return static_cast<long long>(static_cast<std::uint64_t>(power(bits - 1)) << 32);
}

// Moves 128 bits forward: their halves are multiplied by powers of x that lie 64 apart.
template <int kBits>
SHOAL_WIDE __m512i factors() {
  constexpr long long kHigh = factor(kBits), kLow = factor(kBits + 64);
  return _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
}

SHOAL_WIDE inline __m512i fold(__m512i sum, __m512i factors, __m512i next) {
  constexpr int kExclusiveOr = 0x96, kLowHalves = 0x00, kHighHalves = 0x11;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, factors, kLowHalves),
                                   _mm512_clmulepi64_epi128(sum, factors, kHighHalves), next, kExclusiveOr);
}

SHOAL_WIDE std::uint32_t update_words(const unsigned char* at, std::size_t bytes, std::uint32_t crc) noexcept {
  std::uint64_t sum = crc;
  for (; bytes >= sizeof(sum); at += sizeof(sum), bytes -= sizeof(sum)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    sum = _mm_crc32_u64(sum, word);
  }
  crc = static_cast<std::uint32_t>(sum);
  for (; bytes > 0; ++at, --bytes) crc = _mm_crc32_u8(crc, *at);
  return crc;
}

SHOAL_WIDE std::uint32_t update(const void* data, std::size_t bytes, std::uint32_t crc) noexcept {
  constexpr std::size_t kVector = 64, kRound = 4 * kVector;
  const auto* at = static_cast<const unsigned char*>(data);
  if (bytes < kRound) return update_words(at, bytes, crc);
  const auto vector = [&at](std::size_t i) SHOAL_WIDE { return _mm512_loadu_si512(at + i * kVector); };
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc)));
  __m512i a = _mm512_xor_si512(vector(0), start), b = vector(1), c = vector(2), d = vector(3);
  const __m512i round = factors<8 * kRound>(), one = factors<8 * kVector>();
  for (at += kRound, bytes -= kRound; bytes >= kRound; at += kRound, bytes -= kRound) {
    a = fold(a, round, vector(0));
    b = fold(b, round, vector(1));
    c = fold(c, round, vector(2));
    d = fold(d, round, vector(3));
  }
  d = fold(fold(fold(a, one, b), one, c), one, d);
  alignas(kVector) unsigned char rest[kVector];
  _mm512_store_si512(rest, d);
  return update_words(at, bytes, update_words(rest, kVector, 0));
}

}  // namespace

Crc32cUpdate wide_crc32c() noexcept {
  const bool has_all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("sse4.2");
  return has_all ? update : nullptr;
}

}  // namespace shoal

#else

namespace shoal {

Crc32cUpdate wide_crc32c() noexcept { return nullptr; }

}  // namespace shoal

#endif
