#include "models/classifier.h"

#include <torch/torch.h>

#include "models/cross_entropy.h"

namespace shoal::models {

LossSum Classifier::loss(const data::Batch& batch) {
  return {cross_entropy_sum(log_probabilities_of(batch.inputs), batch.targets), batch.targets.size(0)};
}

EvalSum Classifier::evaluate(const data::Batch& batch) {
  const at::NoGradGuard no_grad;
  const at::Tensor output = log_probabilities_of(batch.inputs);
  const at::Tensor correct = output.argmax(1).eq(batch.targets).sum();
  return {cross_entropy_sum(output, batch.targets).item<double>(), correct.item<std::int64_t>(), batch.targets.size(0)};
}

}  // namespace shoal::models
