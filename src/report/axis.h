// An axis: which values it shows, where its ticks are, and where on the picture a value is.
#pragma once

#include <string>
#include <vector>

namespace shoal::report {

class Axis {
 public:
  // Around [least, most], widened to ticks at 1, 2 or 5 times a power of ten; about `ticks` of them. Begins at pixel
  // `from` and ends at pixel `to`.
  Axis(double least, double most, int ticks, double from, double to);

  double pixel(double value) const { return from_ + (value - low_) / (high_ - low_) * (to_ - from_); }
  double low() const { return low_; }
  double high() const { return high_; }
  const std::vector<double>& ticks() const { return ticks_; }
  // Digits as the distance of ticks needs them: "0.25", "1500", "250k", "2e-05".
  std::string text(double tick) const;

 private:
  double low_, high_, distance_, from_, to_;
  std::vector<double> ticks_;
};

}  // namespace shoal::report
