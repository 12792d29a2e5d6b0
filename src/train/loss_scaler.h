// Loss scaling, which keeps the gradients of fp16 parameters within fp16's range.
#pragma once

#include <cstdint>

namespace shoal::train {

// DeepSpeed's words; the defaults are torch.amp.GradScaler's.
struct LossScaleOptions {
  double fixed = 0;  // 0: it follows the overflows
  std::int64_t initial_power = 16;
  std::int64_t window = 2000;
  std::int64_t hysteresis = 1;
  bool consecutive_hysteresis = false;
  double least = 0x1p-14;  // thirty overflows in a row from the start
};

// OptionError that names the option.
void check(const LossScaleOptions& options);

struct LossScalerState {
  double scale = 65536;
  std::int64_t good_steps = 0;  // since the scale last changed or a step overflowed, all with finite gradients
  std::int64_t tolerated =
      0;  // overflows that did not lower the scale, of the hysteresis - 1 that may; fixed: in a row
  bool operator==(const LossScalerState&) const = default;
};

// The scale is 2^initial_power at first. A step whose gradients are not finite is left out; it halves the scale, unless
// fewer than `hysteresis` steps overflowed since the scale grew (with consecutive_hysteresis: in a row). After `window`
// finite steps in a row the scale is doubled. With the defaults that is torch.amp.GradScaler's, step for step; with
// others DeepSpeed's, which comes to its first doubling after an overflow one step later. After Micikevicius et al.,
// "Mixed Precision Training", 2018.
class LossScaler {
 public:
  static constexpr double kGrowth = 2, kBackoff = 0.5;
  static constexpr std::int64_t kMostFixedOverflows = 30;  // in a row

  explicit LossScaler(const LossScaleOptions& options = {});

  // What losses are multiplied by before backward(), and gradients divided by after.
  double scale() const { return state_.scale; }

  // `finite`: whether all gradients of the step are, on all ranks; the same on every rank. Returns whether the
  // optimizer is to take the step. AgreedError where the scale would fall below the least one, or where a fixed one
  // does not help.
  bool update(bool finite);

  LossScalerState state() const { return state_; }
  // A fixed scale stays what it is.
  void restore(LossScalerState state);

 private:
  void overflowed();

  LossScaleOptions options_;
  LossScalerState state_;
};

}  // namespace shoal::train
