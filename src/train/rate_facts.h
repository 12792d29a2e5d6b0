// What turns samples a second into tokens a second and into the share of a device's peak that a model reaches (MFU).
#pragma once

#include <cstdint>
#include <string>

#include "models/model_options.h"

namespace shoal::train {

struct RateFacts {
  std::int64_t tokens_a_sample = 0;  // 0: the model takes no sequences
  double flops_a_sample = 0;         // forward and backward; 0: not known
  double peak_flops = 0;             // of a rank's device, a second; 0: not known
};

// Of a transformer of `shape` with `parameters`, by Chowdhery et al. 2022 (PaLM), appendix B: a token costs
// 6 N + 12 LAYERS HIDDEN TOKENS floating-point operations; N leaves out tables that are only looked up (positions, and
// an input embedding that is not the output matrix too). What is recomputed in backward does not count. 0 for a shape
// without layers.
double flops_a_sample(const models::ModelOptions& shape, std::int64_t parameters, std::int64_t tokens);

// Dense operations a second that the maker names for the device, on tensor cores for 16-bit types, in fp32 otherwise; 0
// where the name is not in the table.
double peak_flops(const std::string& device, bool sixteen_bits);

}  // namespace shoal::train
