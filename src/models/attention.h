// What shapes of attention must fulfil, and the cut into heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/model_options.h"

namespace shoal::models {

// OptionError where the width cannot be cut into the heads, or the dropout is no probability below 1.
void check_attention(const ModelOptions& options);
// OptionError for more tokens than the model has positions; `tokens` [n, T].
void check_length(const at::Tensor& tokens, std::int64_t max_positions);

// [n, T, heads * d] -> [n, T, heads, d], a view.
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads);

}  // namespace shoal::models
