// Models that put each sample into one of some classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "models/model.h"

namespace shoal::models {

// Batches: inputs [n, …], targets int64 [n]. The loss of a sample is its cross-entropy in nats.
class Classifier : public Model {
 public:
  LossSum loss(const data::Batch& batch) final;
  EvalSum evaluate(const data::Batch& batch) final;

 protected:
  virtual at::Tensor log_probabilities_of(const at::Tensor& inputs) = 0;  // [n, …] -> [n, classes], fp32 or better
};

// Of a torch::nn holder whose module's forward() gives log-probabilities.
template <typename Net>
class ClassifierOf final : public Classifier {
 public:
  explicit ClassifierOf(Net net) : net_(std::move(net)) {}
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }

 private:
  at::Tensor log_probabilities_of(const at::Tensor& inputs) override { return net_(inputs); }

  Net net_;
};

}  // namespace shoal::models
