#include "models/language_model.h"

#include <torch/torch.h>

#include "data/masking.h"
#include "models/cross_entropy.h"

namespace shoal::models {

at::Tensor LanguageModel::logits(const at::Tensor& tokens) { return head(features(tokens)); }

// The head runs even where nothing is to be predicted: ranks must use the same parameters in the same order.
LanguageModel::Predictions LanguageModel::predict(const data::Batch& batch) {
  const at::Tensor targets = batch.targets.flatten();
  const at::Tensor places = targets.ne(data::kNotPredicted).nonzero().flatten();
  const at::Tensor all = features(batch.inputs).flatten(0, 1);
  if (places.numel() == targets.numel()) return {head(all), targets};
  return {head(all.index_select(0, places)), targets.index_select(0, places)};
}

LossSum LanguageModel::loss(const data::Batch& batch) {
  const Predictions made = predict(batch);
  return {cross_entropy_sum(log_probabilities(made.logits), made.targets), made.targets.numel()};
}

EvalSum LanguageModel::evaluate(const data::Batch& batch) {
  const at::NoGradGuard no_grad;
  const Predictions made = predict(batch);
  const at::Tensor correct = made.logits.argmax(-1).eq(made.targets).sum();
  const at::Tensor loss = cross_entropy_sum(log_probabilities(made.logits), made.targets);
  return {loss.item<double>(), correct.item<std::int64_t>(), made.targets.numel()};
}

}  // namespace shoal::models
