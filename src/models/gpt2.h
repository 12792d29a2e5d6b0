// GPT-2 (Radford et al. 2019) with the parameters of transformers' GPT2LMHeadModel, to the name and layout.
#pragma once

#include <memory>

#include "models/language_model.h"
#include "models/model_options.h"

namespace shoal::models {

// Takes batches of data::open_tokens(). Initial weights: matrices from N(0, 0.02), those that write to the residual
// stream from N(0, 0.02 / sqrt(2 layers)); vectors are 0, or 1 where they scale. Dropout: of embeddings, attention
// weights, and what is added to the residual stream. OptionError for a shape that cannot be.
std::unique_ptr<LanguageModel> make_gpt2(const ModelOptions& options);

}  // namespace shoal::models
