#include "models/cross_entropy.h"

#include <torch/torch.h>

namespace shoal::models {

at::Tensor log_probabilities(const at::Tensor& logits) {
  return at::log_softmax(logits, -1, c10::promoteTypes(logits.scalar_type(), at::kFloat));
}

at::Tensor cross_entropy_sum(const at::Tensor& log_probabilities, const at::Tensor& targets) {
  return at::nll_loss(log_probabilities, targets, /*weight=*/{}, at::Reduction::Sum);
}

}  // namespace shoal::models
