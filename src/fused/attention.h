// Multi-head attention on the layout that the projections give. The kernel is LibTorch's choice: on Hopper cuDNN's for
// 16-bit numbers, on other GPUs the flash kernel. These take and give views of [n, T, heads, d], so that nothing is
// permuted in memory on the way in, out, or back; deterministic algorithms and dropout are LibTorch's concern as well.
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
// [n, T, heads * d]. The gradient comes back packed: one copy puts the three together, the only one there is.
at::Tensor packed_attention(const at::Tensor& qkv, std::int64_t heads, const AttentionRule& rule);

namespace reference {
// Written out: a [T, T] matrix of weights, in the type of the arguments, without dropout.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal);
}  // namespace reference

}  // namespace shoal::fused
