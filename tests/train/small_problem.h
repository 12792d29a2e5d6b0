// A problem small enough to be trained many times in a test: 3 classes of 6 numbers, two layers with dropout between.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "data/dataset.h"
#include "models/model.h"

namespace shoal::train {

class SmallData final : public data::Dataset {
 public:
  explicit SmallData(std::int64_t size);
  std::int64_t size() const override { return inputs_.size(0); }
  data::Batch batch(std::span<const std::int64_t> indices) const override;
  std::uint32_t fingerprint() const override { return static_cast<std::uint32_t>(size()); }

 private:
  at::Tensor inputs_, targets_;
};

// Double precision, so that "equal up to rounding" is a sharp statement.
class SmallModel final : public models::Model {
 public:
  explicit SmallModel(double dropout);
  std::shared_ptr<torch::nn::Module> module() override { return net_.ptr(); }
  models::LossSum loss(const data::Batch& batch) override;
  models::EvalSum evaluate(const data::Batch& batch) override;

 private:
  torch::nn::Sequential net_;
};

using Weights = std::map<std::string, at::Tensor>;
Weights copy_weights(torch::nn::Module& module);
// The largest absolute difference of any element; the names must be the same.
double largest_difference(const Weights& a, const Weights& b);

}  // namespace shoal::train
