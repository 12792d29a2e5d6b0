// What all language models have in common: how a loss is made of their output.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "models/model.h"

namespace shoal::models {

// Batches: inputs int64 [n, T], the tokens; targets int64 [n, T], what is to be predicted at each place, or
// data::kNotPredicted. Losses are sums of cross-entropies (in nats) over the places where something is to be
// predicted, and count is the number of these. The output matrix is applied to those places alone.
class LanguageModel : public Model {
 public:
  LossSum loss(const data::Batch& batch) final;
  EvalSum evaluate(const data::Batch& batch) final;
  at::Tensor logits(const at::Tensor& tokens);  // int64 [n, T] -> [n, T, vocabulary]

 protected:
  virtual at::Tensor features(const at::Tensor& tokens) = 0;  // int64 [n, T] -> [n, T, width]
  virtual at::Tensor head(const at::Tensor& features) = 0;    // [..., width] -> [..., vocabulary]
  // W [vocabulary, width] where head(x) is x W^T and no more: then the loss needs no logits. Undefined elsewhere.
  virtual at::Tensor head_matrix();

 private:
  // The places where something is to be predicted.
  struct Predicted {
    at::Tensor features, targets;  // [count, width], [count]
  };
  Predicted predicted(const data::Batch& batch);
};

// Of a torch::nn holder whose module has features() and head(), and head_matrix() where there is one.
template <typename Net>
class LanguageModelOf final : public LanguageModel {
 public:
  explicit LanguageModelOf(Net net) : net_(std::move(net)) {}
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }

 private:
  at::Tensor features(const at::Tensor& tokens) override { return net_->features(tokens); }
  at::Tensor head(const at::Tensor& features) override { return net_->head(features); }
  at::Tensor head_matrix() override {
    if constexpr (requires(Net net) { net->head_matrix(); })
      return net_->head_matrix();
    else
      return LanguageModel::head_matrix();
  }

  Net net_;
};

}  // namespace shoal::models
