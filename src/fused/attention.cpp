#include "fused/attention.h"

#include <torch/torch.h>

namespace shoal::fused {

namespace reference {

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionRule& rule) {
  const bool grouped = key.size(2) != query.size(2);
  const at::Tensor heads = at::scaled_dot_product_attention(
      query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), /*attn_mask=*/{}, rule.dropout, rule.causal,
      /*scale=*/std::nullopt, grouped);
  return heads.transpose(1, 2).contiguous();
}

at::Tensor packed_attention(const at::Tensor& qkv, std::int64_t heads, const AttentionRule& rule) {
  const std::int64_t n = qkv.size(0), length = qkv.size(1), width = qkv.size(2) / 3;
  const auto parts = qkv.chunk(3, -1);
  const auto split = [&](const at::Tensor& part) { return part.unflatten(-1, {heads, width / heads}); };
  return reference::attention(split(parts[0]), split(parts[1]), split(parts[2]), rule).view({n, length, width});
}

}  // namespace reference

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionRule& rule) {
  return reference::attention(query, key, value, rule);
}

at::Tensor packed_attention(const at::Tensor& qkv, std::int64_t heads, const AttentionRule& rule) {
  return reference::packed_attention(qkv, heads, rule);
}

}  // namespace shoal::fused
