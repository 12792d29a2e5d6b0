#include "checkpoint/compare_elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/float8.h"
#include "core/half.h"

namespace shoal::checkpoint {
namespace {

struct Distance {
  double absolute = 0, relative = 0;
};

Distance distance_of(double a, double b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(a) && std::isnan(b)) return {};
  if (std::isnan(a) || std::isnan(b)) return {kInfinity, kInfinity};
  if (a == b) return {};  // infinities of one sign, and zeros of both
  const double absolute = std::abs(a - b);
  return {absolute, std::isinf(absolute) ? kInfinity : absolute / std::max(std::abs(a), std::abs(b))};
}

// In unsigned arithmetic, where the difference of any two fits.
Distance distance_of(std::int64_t a, std::int64_t b) {
  const auto above = static_cast<std::uint64_t>(std::max(a, b)), below = static_cast<std::uint64_t>(std::min(a, b));
  const auto absolute = static_cast<double>(above - below);
  return {absolute, absolute / std::max(std::abs(static_cast<double>(a)), std::abs(static_cast<double>(b)))};
}

// `as_number`: from the element as it lies in memory to double or int64.
template <typename Stored, typename AsNumber>
void compare(const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t first, ElementDifferences& total,
             const AsNumber& as_number) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored x, y;
    std::memcpy(&x, a + i * static_cast<std::int64_t>(sizeof x), sizeof x);
    std::memcpy(&y, b + i * static_cast<std::int64_t>(sizeof y), sizeof y);
    if (std::memcmp(&x, &y, sizeof x) == 0) continue;
    if (total.count++ == 0) total.first = first + i;
    const Distance distance = distance_of(as_number(x), as_number(y));
    total.max_absolute = std::max(total.max_absolute, distance.absolute);
    total.max_relative = std::max(total.max_relative, distance.relative);
  }
}

}  // namespace

void compare_elements(DType dtype, const std::byte* a, const std::byte* b, std::int64_t count, std::int64_t first,
                      ElementDifferences& total) {
  if (std::memcmp(a, b, static_cast<std::size_t>(count * size_of(dtype))) == 0) return;
  const auto as_double = [](auto x) { return static_cast<double>(x); };
  const auto as_integer = [](auto x) { return static_cast<std::int64_t>(x); };
  const auto of_half = [](std::uint16_t x) { return static_cast<double>(to_float(Float16{x})); };
  const auto of_brain = [](std::uint16_t x) { return static_cast<double>(to_float(BFloat16{x})); };
  const auto of_e4m3 = [](std::uint8_t x) { return static_cast<double>(to_float(Float8E4M3{x})); };
  const auto of_e5m2 = [](std::uint8_t x) { return static_cast<double>(to_float(Float8E5M2{x})); };
  switch (dtype) {
    case DType::float64: return compare<double>(a, b, count, first, total, as_double);
    case DType::float32: return compare<float>(a, b, count, first, total, as_double);
    case DType::float16: return compare<std::uint16_t>(a, b, count, first, total, of_half);
    case DType::bfloat16: return compare<std::uint16_t>(a, b, count, first, total, of_brain);
    case DType::float8_e4m3fn: return compare<std::uint8_t>(a, b, count, first, total, of_e4m3);
    case DType::float8_e5m2: return compare<std::uint8_t>(a, b, count, first, total, of_e5m2);
    case DType::int64: return compare<std::int64_t>(a, b, count, first, total, as_integer);
    case DType::int32: return compare<std::int32_t>(a, b, count, first, total, as_integer);
    case DType::int16: return compare<std::int16_t>(a, b, count, first, total, as_integer);
    case DType::int8: return compare<std::int8_t>(a, b, count, first, total, as_integer);
    case DType::uint8:
    case DType::boolean: return compare<std::uint8_t>(a, b, count, first, total, as_integer);
  }
  throw InternalError("element type {} cannot be compared", static_cast<int>(dtype));
}

}  // namespace shoal::checkpoint
