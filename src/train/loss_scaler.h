// Dynamic loss scaling, which keeps the gradients of fp16 parameters within fp16's range.
#pragma once

#include <cstdint>

namespace shoal::train {

struct LossScalerState {
  double scale = 65536;
  std::int64_t good_steps = 0;  // since the scale last changed, all with finite gradients
  bool operator==(const LossScalerState&) const = default;
};

// The scale is that of torch.amp.GradScaler with its defaults, step for step: doubled after 2000 finite steps in a row,
// halved after each that was not, which is left out. After Micikevicius et al., "Mixed Precision Training", 2018.
class LossScaler {
 public:
  static constexpr double kGrowth = 2, kBackoff = 0.5;
  static constexpr std::int64_t kGrowthInterval = 2000;
  static constexpr double kLeastScale = 0x1p-14;  // thirty overflows in a row from the start

  // What losses are multiplied by before backward(), and gradients divided by after.
  double scale() const { return state_.scale; }

  // `finite`: whether all gradients of the step are, on all ranks; the same on every rank. Returns whether the
  // optimizer is to take the step. AgreedError where the scale would fall below kLeastScale.
  bool update(bool finite);

  LossScalerState state() const { return state_; }
  void restore(LossScalerState state) { state_ = state; }

 private:
  LossScalerState state_;
};

}  // namespace shoal::train
