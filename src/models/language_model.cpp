#include "models/language_model.h"

#include <torch/torch.h>

#include "data/masking.h"
#include "fused/linear_cross_entropy.h"
#include "models/cross_entropy.h"

namespace shoal::models {
namespace {

// Places whose logits are there at once in a validation: 0.4 GB in fp32 for GPT-2's vocabulary.
constexpr std::int64_t kEvaluatedAtOnce = 2048;

}  // namespace

at::Tensor LanguageModel::logits(const at::Tensor& tokens) { return head(features(tokens)); }

at::Tensor LanguageModel::head_matrix() { return {}; }

// Where the host does not know how many places there are, nonzero() has it wait for a GPU.
LanguageModel::Predicted LanguageModel::predicted(const data::Batch& batch) {
  const at::Tensor targets = batch.targets.flatten();
  const at::Tensor all = features(batch.inputs).flatten(0, 1);
  if (batch.predicted == targets.numel()) return {all, targets};
  const at::Tensor wanted = targets.ne(data::kNotPredicted);
  const at::Tensor places =
      (batch.predicted < 0 ? wanted.nonzero() : at::nonzero_static(wanted, batch.predicted)).flatten();
  if (places.numel() == targets.numel()) return {all, targets};
  return {all.index_select(0, places), targets.index_select(0, places)};
}

// The head runs even where nothing is to be predicted: ranks must use the same parameters in the same order.
LossSum LanguageModel::loss(const data::Batch& batch) {
  const Predicted places = predicted(batch);
  const at::Tensor matrix = head_matrix();
  const at::Tensor sum = matrix.defined()
                             ? fused::linear_cross_entropy(places.features, matrix, places.targets, data::kNotPredicted)
                             : cross_entropy_sum(log_probabilities(head(places.features)), places.targets);
  return {sum, places.targets.numel()};
}

EvalSum LanguageModel::evaluate(const data::Batch& batch) {
  const at::NoGradGuard no_grad;
  const Predicted places = predicted(batch);
  const std::int64_t count = places.targets.numel();
  const at::Tensor loss = at::zeros({}, places.targets.options().dtype(at::kDouble));
  const at::Tensor correct = at::zeros({}, places.targets.options());
  std::int64_t begin = 0;
  do {
    const at::Tensor targets = places.targets.slice(0, begin, begin + kEvaluatedAtOnce);
    const at::Tensor logits = head(places.features.slice(0, begin, begin + kEvaluatedAtOnce));
    correct.add_(logits.argmax(-1).eq(targets).sum());
    loss.add_(cross_entropy_sum(log_probabilities(logits), targets));
    begin += kEvaluatedAtOnce;
  } while (begin < count);
  return {loss.item<double>(), correct.item<std::int64_t>(), count};
}

}  // namespace shoal::models
