// How steps are taken: rule, learning rate, clipping, and the scale of fp16's losses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/loss_scaler.h"

namespace shoal::train {

struct OptimizerSettings {
  optim::OptimizerOptions rule;
  double learning_rate = 1e-3;
  std::string schedule = "constant";
  std::int64_t warmup = 0;                // steps
  std::string warmup_type = "linear";     // or log
  double warmup_min_ratio = 0;            // where the warm-up begins, as a part of learning_rate
  std::string no_decay = "auto";          // auto, none, GLOB,...
  std::vector<std::string> param_groups;  // GLOB:KEY=VALUE,...
  double clip_grad_norm = 0;              // 0: no clipping
  LossScaleOptions loss_scale;            // with param_dtype fp16
};

// OptionError that names the option.
optim::Schedule schedule_of(const OptimizerSettings& optimizer);

}  // namespace shoal::train
