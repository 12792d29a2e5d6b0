// Llama 3 (Grattafiori et al. 2024) with the parameters of transformers' LlamaForCausalLM, to the name and layout.
#pragma once

#include <memory>

#include "models/language_model.h"
#include "models/model_options.h"

namespace shoal::models {

// Takes batches of data::open_tokens(). Grouped-query attention, SwiGLU, RMSNorm, rotary positions with Llama 3.1's
// frequencies (rope.h). Initial weights: matrices from N(0, 0.02), norms 1. Dropout: of attention weights. OptionError
// for a shape that cannot be.
std::unique_ptr<LanguageModel> make_llama(const ModelOptions& options);

}  // namespace shoal::models
