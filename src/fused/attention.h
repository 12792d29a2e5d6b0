// Multi-head attention on the layout that the projections give, without permuted copies: cuDNN's kernel on Hopper,
// LibTorch's flash kernel on other GPUs, elsewhere whatever scaled_dot_product_attention takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace shoal::fused {

struct AttentionRule {
  bool causal = false;
  double dropout = 0;  // of the attention weights
};

// softmax(Q K^T / sqrt(d)) V. query [n, T, heads, d]; key and value [n, T, kv_heads, d], each shared by heads /
// kv_heads neighbouring queries (Ainslie et al. 2023); any strides whose last is 1. Gives [n, T, heads, d], contiguous.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionRule& rule);

// The same of packed projections [n, T, 3 * heads * d] (all queries, then all keys, then all values); gives
// [n, T, heads * d]. The gradient comes back packed.
at::Tensor packed_attention(const at::Tensor& qkv, std::int64_t heads, const AttentionRule& rule);

namespace reference {
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionRule& rule);
at::Tensor packed_attention(const at::Tensor& qkv, std::int64_t heads, const AttentionRule& rule);
}  // namespace reference

}  // namespace shoal::fused
