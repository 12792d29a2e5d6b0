// The norm of a module's gradient, wherever the shards of it are.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "optim/reductions.h"

namespace shoal::optim {
class DeviceSquares;
}

namespace shoal::fsdp {

class Runtime;

class GradientNorm {
 public:
  explicit GradientNorm(Runtime& runtime);
  ~GradientNorm();
  GradientNorm(const GradientNorm&) = delete;
  GradientNorm& operator=(const GradientNorm&) = delete;

  // The 2-norm of the unsharded gradient, times `grad_scale`; not finite where an element is not. Collective over the
  // mesh. The host waits for the GPU once. The order of the additions depends on the sizes of the shards alone; with
  // options().deterministic there is none, and the result is the same bits at any number of ranks.
  double value(double grad_scale);

 private:
  std::vector<at::Tensor> gradients() const;
  double host_sum();
  double rounded_sum_of_squares();
  double exact_sum_of_squares();
  optim::DeviceSquares& on_device();

  Runtime* runtime_;
  std::unique_ptr<optim::DeviceSquares> on_device_;  // made when a gradient is first found on a GPU
};

}  // namespace shoal::fsdp
