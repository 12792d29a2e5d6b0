#include "fused/attention.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "fused/operators.h"

namespace shoal::fused {

at::Tensor reference::attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal) {
  const std::int64_t shared_by = query.size(2) / key.size(2), length = query.size(1);
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(1, 2); };
  const at::Tensor keys = heads_first(key.repeat_interleave(shared_by, 2));
  const at::Tensor values = heads_first(value.repeat_interleave(shared_by, 2));
  at::Tensor scores = heads_first(query).matmul(keys.mT()) / std::sqrt(static_cast<double>(query.size(3)));
  if (causal) {
    const at::Tensor later = at::ones({length, length}, query.options().dtype(at::kBool)).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  return heads_first(scores.softmax(-1).matmul(values)).contiguous();
}

// The kernels give their result in the layout of the query, so that contiguous() copies only what others give. The one
// for fp32 shares no keys: LibTorch would write the [T, T] matrix out, which takes more than keys for every query.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionRule& rule) {
  const bool grouped = key.size(2) != query.size(2);
  if (grouped && is_for_kernels(query) && query.scalar_type() == at::kFloat) {
    const std::int64_t shared_by = query.size(2) / key.size(2);
    return attention(query, key.repeat_interleave(shared_by, 2), value.repeat_interleave(shared_by, 2), rule);
  }
  const at::Tensor heads = at::scaled_dot_product_attention(
      query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), /*attn_mask=*/{}, rule.dropout, rule.causal,
      /*scale=*/std::nullopt, grouped);
  return heads.transpose(1, 2).contiguous();
}

at::Tensor packed_attention(const at::Tensor& qkv, std::int64_t heads, const AttentionRule& rule) {
  const std::int64_t head_size = qkv.size(2) / 3 / heads;
  const auto parts = qkv.unflatten(-1, {3, heads, head_size}).unbind(2);
  return attention(parts[0], parts[1], parts[2], rule).flatten(2);
}

}  // namespace shoal::fused
