#include "train/loss_scaler.h"

#include <cmath>

#include "train/agreement.h"

namespace shoal::train {

bool LossScaler::update(bool finite) {
  if (!finite) {
    if (state_.scale * kBackoff < kLeastScale)
      throw AgreedError(
          ExitCode::usage,
          fmt::format("gradients are not finite even with the loss multiplied by {:g}: they hold NaN rather than "
                      "overflow; lower --lr, or give --param-dtype bf16 or fp32",
                      state_.scale));
    state_ = {state_.scale * kBackoff, 0};
    return false;
  }
  if (++state_.good_steps == kGrowthInterval) {
    // As GradScaler, whose scale is a float32.
    const double larger = state_.scale * kGrowth;
    state_ = {std::isfinite(static_cast<float>(larger)) ? larger : state_.scale, 0};
  }
  return true;
}

}  // namespace shoal::train
