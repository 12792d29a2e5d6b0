#include "train/loss_scaler.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "train/agreement.h"

namespace shoal::train {

void check(const LossScaleOptions& options) {
  SHOAL_CHECK(std::isfinite(options.fixed) && options.fixed >= 0, OptionError,
              "--loss-scale must be a number > 0, or 0 for one that follows the overflows, not {}", options.fixed);
  constexpr std::int64_t kFloatExponents = 127;
  SHOAL_CHECK(options.initial_power >= 0 && options.initial_power <= kFloatExponents, OptionError,
              "--initial-scale-power must be from 0 to {}, not {}", kFloatExponents, options.initial_power);
  SHOAL_CHECK(options.window >= 1, OptionError, "--loss-scale-window must be at least 1, not {}", options.window);
  SHOAL_CHECK(options.hysteresis >= 1, OptionError, "--hysteresis must be at least 1, not {}", options.hysteresis);
  const double first = std::ldexp(1.0, static_cast<int>(options.initial_power));
  SHOAL_CHECK(options.least > 0 && options.least <= first, OptionError,
              "--min-loss-scale {} must be above 0, and at most the first scale, {:g} (--initial-scale-power)",
              options.least, first);
}

LossScaler::LossScaler(const LossScaleOptions& options) : options_(options) {
  const double first = std::ldexp(1.0, static_cast<int>(options.initial_power));
  state_.scale = options.fixed > 0 ? options.fixed : first;
}

void LossScaler::restore(LossScalerState state) {
  state_ = state;
  if (options_.fixed > 0) state_.scale = options_.fixed;
}

bool LossScaler::update(bool finite) {
  if (!finite) {
    overflowed();
    return false;
  }
  if (options_.fixed > 0 || options_.consecutive_hysteresis) state_.tolerated = 0;
  if (options_.fixed == 0 && ++state_.good_steps == options_.window) {
    // As GradScaler, whose scale is a float32.
    const double larger = state_.scale * kGrowth;
    state_ = {std::isfinite(static_cast<float>(larger)) ? larger : state_.scale};
  }
  return true;
}

void LossScaler::overflowed() {
  const bool fixed = options_.fixed > 0;
  if (fixed ? state_.tolerated + 1 < kMostFixedOverflows : state_.tolerated + 1 < options_.hysteresis) {
    ++state_.tolerated;
    state_.good_steps = 0;
    return;
  }
  if (fixed || state_.scale <= options_.least)
    throw AgreedError(ExitCode::usage,
                      fmt::format("gradients are not finite even with the loss multiplied by {:g}: they hold NaN "
                                  "rather than overflow, or the scale is too large; lower --lr{}, or give "
                                  "--param-dtype bf16 or fp32",
                                  state_.scale, fixed ? " or --loss-scale" : ""));
  state_.scale = std::max(state_.scale * kBackoff, options_.least);
  state_.good_steps = 0;
}

}  // namespace shoal::train
