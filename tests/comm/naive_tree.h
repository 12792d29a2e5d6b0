// The order of additions that local_reduce() promises, level by level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/half.h"
#include "shard/dtype.h"

namespace shoal::testing {

inline float exact(float x) { return x; }
inline double exact(double x) { return x; }
inline float exact(BFloat16 x) { return to_float(x); }
inline float exact(Float16 x) { return to_float(x); }

inline void round_to(double x, float& to) { to = static_cast<float>(x); }
inline void round_to(double x, double& to) { to = x; }
inline void round_to(double x, BFloat16& to) { to = to_bfloat16(static_cast<float>(x)); }
inline void round_to(double x, Float16& to) { to = to_float16(static_cast<float>(x)); }

template <typename T>
T naive_tree(const std::vector<T>& terms) {
  std::vector<decltype(exact(T{}))> level;
  for (const T term : terms) level.push_back(exact(term));
  while (level.size() > 1) {
    std::size_t pairs = 0;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) level[pairs++] = level[i] + level[i + 1];
    if (level.size() % 2 == 1) level[pairs++] = level.back();
    level.resize(pairs);
  }
  T rounded{};
  round_to(level[0], rounded);
  return rounded;
}

// What rank `rank` brings as element `i`: of either sign and of many sizes, so that each order of additions rounds
// differently.
template <typename T>
T uneven_element(int rank, std::int64_t i) {
  const std::uint64_t mixed = (std::uint64_t(rank) * 1'000'003 + std::uint64_t(i) + 1) * 0x9E3779B97F4A7C15;
  const auto size = static_cast<double>(1 << (mixed % 7));
  T value{};
  round_to(size * (static_cast<double>(mixed >> 11) * 0x1p-53 - 0.5), value);
  return value;
}

template <typename T>
constexpr DType kTypeOf = DType::float32;
template <>
inline constexpr DType kTypeOf<double> = DType::float64;
template <>
inline constexpr DType kTypeOf<BFloat16> = DType::bfloat16;
template <>
inline constexpr DType kTypeOf<Float16> = DType::float16;

}  // namespace shoal::testing
