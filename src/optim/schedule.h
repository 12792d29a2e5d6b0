// Learning-rate schedules: pure functions of the place in the run, so that a restart has nothing to restore.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::optim {

// "constant" | "step:SIZE:GAMMA" (times GAMMA after every SIZE epochs, as torch's StepLR stepped once an epoch).
class Schedule {
 public:
  // Throws OptionError that names --schedule.
  static Schedule parse(const std::string& text);

  // `epoch` counts from 0. Equal to torch's StepLR to the last bit: the rate is multiplied once for each SIZE epochs.
  double learning_rate(double base, std::int64_t epoch) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "constant";
  std::int64_t size_ = 0;  // epochs; 0: constant
  double gamma_ = 1;
};

}  // namespace shoal::optim
