// What transformers wants beside a checkpoint's tensors to make its model of them.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/manifest.h"

namespace shoal::checkpoint {

// The text of the config.json of a folder of Hugging Face for a checkpoint of a built-in GPT-2, Llama or BERT, whose
// tensors have transformers' names and layouts already; of a tied model the alias of the embedding (lm_head.weight,
// cls.predictions.decoder.*) is left out of the files, since from_pretrained() ties it. Nothing for other models, and
// for a checkpoint that does not tell the model's shape (an imported one).
std::optional<std::string> hf_config(const Manifest& manifest);

}  // namespace shoal::checkpoint
