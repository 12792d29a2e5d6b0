#include "fused/linear_cross_entropy.h"

#include <torch/torch.h>

namespace shoal::fused {

at::Tensor reference::linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                           std::int64_t ignored) {
  const at::Tensor logits = at::linear(x, weight);
  const at::Tensor log_p = at::log_softmax(logits, -1, c10::promoteTypes(logits.scalar_type(), at::kFloat));
  return at::nll_loss(log_p, targets, /*weight=*/{}, at::Reduction::Sum, ignored);
}

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                std::int64_t ignored) {
  return reference::linear_cross_entropy(x, weight, targets, ignored);
}

}  // namespace shoal::fused
