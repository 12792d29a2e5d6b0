// BERT (Devlin et al. 2018) as a masked language model, with the parameters of transformers' BertForMaskedLM, to the
// name and layout.
#pragma once

#include <memory>

#include "models/language_model.h"
#include "models/model_options.h"

namespace shoal::models {

// Takes batches of data::open_masked_tokens(): whole sequences, so there is no padding token, and all tokens are of
// the first segment. With an untied head, cls.predictions.bias is known as cls.predictions.decoder.bias alone, which is
// the one that transformers uses then. Initial weights: matrices from N(0, 0.02); vectors are 0, or 1 where they scale.
// Dropout: of embeddings, attention weights, and what is added to the residual stream. OptionError for a shape that
// cannot be.
std::unique_ptr<LanguageModel> make_bert(const ModelOptions& options);

}  // namespace shoal::models
