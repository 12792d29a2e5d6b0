// What the trainer needs of a model: a module to shard, and what it computes from a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace torch::nn {
class Module;
}

namespace shoal::models {

// A mean is never taken per rank or per batch: sums and counts add up over ranks and micro-steps, and are divided once.
struct LossSum {
  at::Tensor sum;          // scalar; backward() may be called on it
  std::int64_t count = 0;  // what the sum runs over: samples, or tokens
};

struct EvalSum {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t count = 0;
};

// Both computations leave the module's train() or eval() mode as the caller set it. Losses are computed in fp32 or
// better, also where the parameters are 16-bit.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::shared_ptr<torch::nn::Module> module() = 0;
  virtual LossSum loss(const data::Batch& batch) = 0;
  virtual EvalSum evaluate(const data::Batch& batch) = 0;
  // For modules that are not a torch::nn::Module inside (TorchScript): the mode and the device that module() was set
  // to.
  virtual void set_training(bool training);
  virtual void to_device(at::Device device);
};

}  // namespace shoal::models
