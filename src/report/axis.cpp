#include "report/axis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace shoal::report {
namespace {

// The smallest of 1, 2 or 5 times a power of ten that is not below `least`.
double round_distance(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

}  // namespace

Axis::Axis(double least, double most, int ticks, double from, double to) : from_(from), to_(to) {
  const double size = std::max(std::abs(least), std::abs(most));
  if (!(most - least > 1e-9 * size)) {  // one value alone
    most += size > 0 ? 0.1 * size : 1;
    least -= size > 0 && least != 0 ? 0.1 * size : 0;
  }
  distance_ = round_distance((most - least) / ticks);
  const double first = std::floor(least / distance_ + 1e-9), last = std::ceil(most / distance_ - 1e-9);
  low_ = first * distance_;
  high_ = last * distance_;
  for (double i = first; i <= last; ++i) ticks_.push_back(i * distance_);
}

std::string Axis::text(double tick) const {
  const double size = std::max(std::abs(low_), std::abs(high_));
  if (tick == 0) return "0";
  if (size < 1e-3) return fmt::format("{:.3g}", tick);
  for (const auto& [unit, letter] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (size >= 10 * unit) return fmt::format("{:.4g}{}", tick / unit, letter);
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(distance_) + 1e-9)));
  return fmt::format("{:.{}f}", tick, digits);
}

}  // namespace shoal::report
