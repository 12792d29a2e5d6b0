// Multi-head attention and what a shape must fulfil for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/model_options.h"

namespace shoal::models {

struct AttentionRule {
  bool causal = false;
  double dropout = 0;  // of the attention weights
};

// OptionError where the width cannot be cut into the heads, or the dropout is no probability below 1.
void check_attention(const ModelOptions& options);
// OptionError for more tokens than the model has positions; `tokens` [n, T].
void check_length(const at::Tensor& tokens, std::int64_t max_positions);

// [n, T, heads * d] -> [n, heads, T, d], a view.
at::Tensor split_heads(const at::Tensor& x, std::int64_t heads);

// softmax(Q K^T / sqrt(d)) V, by a kernel that holds no [T, T] matrix where LibTorch has one (on a CPU: where there is
// no dropout). query [n, heads, T, d]; key and value [n, kv_heads, T, d], each shared by heads / kv_heads neighbouring
// queries (Ainslie et al. 2023). Gives [n, T, heads * d].
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionRule& rule);

}  // namespace shoal::models
