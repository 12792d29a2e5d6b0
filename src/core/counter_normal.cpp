#include "core/counter_normal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace shoal {
namespace {

constexpr std::int64_t kLanes = 256;  // counters that are worked on side by side
constexpr std::int64_t kChunk = 4 * kLanes;

// Each function below has loops over lanes alone, for the compiler to make vectors of, once for each kind of processor.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SHOAL_FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SHOAL_FOR_EACH_PROCESSOR
#endif

struct Words {
  std::uint32_t c0, c1, c2, c3;
};

inline Words philox_round(Words c, std::uint32_t key0, std::uint32_t key1) {
  const std::uint64_t product0 = std::uint64_t{0xD2511F53} * c.c0, product1 = std::uint64_t{0xCD9E8D57} * c.c2;
  return {static_cast<std::uint32_t>(product1 >> 32) ^ c.c1 ^ key0, static_cast<std::uint32_t>(product1),
          static_cast<std::uint32_t>(product0 >> 32) ^ c.c3 ^ key1, static_cast<std::uint32_t>(product0)};
}

inline Words philox(Words counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key0, key1);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

constexpr float kUnit = 0x1p-24F;

// ln u for u = (24 bits + 1) / 2^24: u = m 2^e with m in [sqrt(1/2), sqrt(2)), and the polynomial of Cephes' logf
// (Moshier 1992).
inline float logarithm(float u) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(u) + (0x3F800000U - 0x3F3504F3U);
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 127);
  const float x = std::bit_cast<float>((bits & 0x007FFFFFU) + 0x3F3504F3U) - 1;
  const float xx = x * x;
  float p = 7.0376836292E-2F;
  for (const float next : {-1.1514610310E-1F, 1.1676998740E-1F, -1.2420140846E-1F, 1.4249322787E-1F, -1.6668057665E-1F,
                           2.0000714765E-1F, -2.4999993993E-1F, 3.3333331174E-1F})
    p = p * x + next;
  return exponent * 0.693359375F + (x + (x * xx * p + exponent * -2.12194440e-4F - 0.5F * xx));
}

// cos and sin of `turns` times 2 pi for turns in [0, 1): the nearest quarter, and Cephes' polynomials for what is left.
inline std::pair<float, float> cosine_and_sine(float turns) {
  const auto quarter = static_cast<std::int32_t>(turns * 4 + 0.5F);
  const float x = (turns - static_cast<float>(quarter) * 0.25F) * 6.2831853071795865F;
  const float xx = x * x;
  const float sine = x + x * xx * ((-1.9515295891E-4F * xx + 8.3321608736E-3F) * xx - 1.6666654611E-1F);
  const float cosine =
      1 - 0.5F * xx + xx * xx * ((2.443315711809948E-5F * xx - 1.388731625493765E-3F) * xx + 4.166664568298827E-2F);
  const float c = (quarter & 1) != 0 ? sine : cosine, s = (quarter & 1) != 0 ? cosine : sine;
  return {((quarter + 1) & 2) != 0 ? -c : c, (quarter & 2) != 0 ? -s : s};
}

struct Chunk {
  alignas(64) float values[kChunk];
};

SHOAL_FOR_EACH_PROCESSOR
void fill_chunk(Chunk& chunk, std::uint64_t number, std::uint64_t key, float std) {
  const auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  const std::uint64_t counter = number * kLanes;
  const auto low = static_cast<std::uint32_t>(counter), high = static_cast<std::uint32_t>(counter >> 32);
  alignas(64) std::uint32_t words[4][kLanes];
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    const Words w = philox({low + i, high, 0, 0}, key0, key1);
    words[0][i] = w.c0;
    words[1][i] = w.c1;
    words[2][i] = w.c2;
    words[3][i] = w.c3;
  }
  for (std::int64_t pair = 0; pair < 4; pair += 2) {
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const auto first = static_cast<std::int32_t>(words[pair][i] >> 8),
                 second = static_cast<std::int32_t>(words[pair + 1][i] >> 8);
      const float radius = std * __builtin_sqrtf(-2 * logarithm(static_cast<float>(first + 1) * kUnit));
      const auto [cosine, sine] = cosine_and_sine(static_cast<float>(second) * kUnit);
      chunk.values[pair * kLanes + i] = radius * cosine;
      chunk.values[(pair + 1) * kLanes + i] = radius * sine;
    }
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  const Words words = philox({counter[0], counter[1], counter[2], counter[3]}, key[0], key[1]);
  return {words.c0, words.c1, words.c2, words.c3};
}

void fill_normal(std::span<float> values, std::uint64_t key, std::int64_t begin, float std) {
  Chunk chunk;
  for (std::int64_t at = begin, end = begin + std::ssize(values); at < end;) {
    const std::int64_t number = at / kChunk, offset = at % kChunk, count = std::min(kChunk - offset, end - at);
    fill_chunk(chunk, static_cast<std::uint64_t>(number), key, std);
    std::copy_n(chunk.values + offset, count, values.data() + (at - begin));
    at += count;
  }
}

}  // namespace shoal
