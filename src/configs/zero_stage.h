// DeepSpeed's stages of ZeRO and what it offloads, which accelerate's plug-in says in other keys.
#pragma once

#include "configs/section.h"

namespace shoal::configs {

struct ZeroSettings {
  std::int64_t stage = 0;
  std::string stage_key;
  std::string optimizer_device = "none", optimizer_key;
  std::string param_device = "none", param_key;
  bool replicated = false;  // stage 3 within groups of ranks
};

// OptionError for a stage that is none, a device but cpu and none, and parameters offloaded before stage 3.
void translate_zero(Section& section, const ZeroSettings& zero);

}  // namespace shoal::configs
