#include "train/small_problem.h"

#include <gtest/gtest.h>

#include "models/init.h"

namespace shoal::train {

SmallData::SmallData(std::int64_t size) {
  const at::Generator generator = at::detail::createCPUGenerator(11);
  inputs_ = at::randn({size, 6}, generator, at::kDouble);
  targets_ = inputs_.slice(1, 0, 3).argmax(1);
}

data::Batch SmallData::batch(std::span<const std::int64_t> indices) const {
  const at::Tensor rows = at::tensor(at::ArrayRef<std::int64_t>(indices.data(), indices.size()), at::kLong);
  return {inputs_.index_select(0, rows), targets_.index_select(0, rows)};
}

SmallModel::SmallModel(double dropout)
    : net_(torch::nn::Linear(6, 7), torch::nn::Dropout(dropout), torch::nn::Functional(torch::tanh),
           torch::nn::Linear(7, 3)) {
  models::initialize_parameters(*net_, 5);
  net_->to(at::kDouble);
}

models::LossSum SmallModel::loss(const data::Batch& batch) {
  return {torch::cross_entropy_loss(net_->forward(batch.inputs), batch.targets, {}, at::Reduction::Sum),
          batch.targets.size(0)};
}

models::EvalSum SmallModel::evaluate(const data::Batch& batch) {
  const at::Tensor scores = net_->forward(batch.inputs);
  const at::Tensor loss = torch::cross_entropy_loss(scores, batch.targets, {}, at::Reduction::Sum);
  return {loss.item<double>(), scores.argmax(1).eq(batch.targets).sum().item<std::int64_t>(), batch.targets.size(0)};
}

Weights copy_weights(torch::nn::Module& module) {
  Weights weights;
  for (const auto& p : module.named_parameters()) weights[p.key()] = p.value().detach().clone();
  return weights;
}

double largest_difference(const Weights& a, const Weights& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (const auto& [name, tensor] : a) largest = std::max(largest, (tensor - b.at(name)).abs().max().item<double>());
  return largest;
}

}  // namespace shoal::train
