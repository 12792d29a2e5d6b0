// Optimizers over flat shards: an element-wise rule, applied to the fp32 (or fp64) master elements a rank holds.
// Nothing here knows of tensors, ranks or modules; the caller owns all memory, and state starts as zeros.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shard/dtype.h"

namespace shoal::optim {

// `count` elements of one parameter group. `state[i]` is the array of state_names()[i].
struct FlatSpan {
  DType dtype = DType::float32;  // float32 or float64, of all arrays
  void* param = nullptr;
  const void* grad = nullptr;
  std::vector<void*> state;
  std::int64_t count = 0;
  std::optional<double> weight_decay;  // of the group; unset: the optimizer's
  bool on_device = false;              // all arrays in the memory of the current GPU; the step is queued on `stream`
  void* stream = nullptr;              // a cudaStream_t
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;                      // "adadelta"
  virtual std::vector<std::string> state_names() const = 0;  // torch's own: "square_avg", "acc_delta", "exp_avg", …
  virtual double weight_decay() const = 0;
  // One step: the gradient used is grad * grad_scale. `step` counts from 1 (Adam's bias correction).
  virtual void step(const FlatSpan& span, std::int64_t step, double lr, double grad_scale) const = 0;
};

struct OptimizerOptions {
  std::string name = "adamw";  // sgd, adam, adamw, adadelta
  double weight_decay = 0;     // decoupled for adamw, added to the gradient for the others, as in torch.optim
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adam, adamw
  double rho = 0.9, adadelta_eps = 1e-6;          // adadelta
  double momentum = 0;                            // sgd
};

// Throws OptionError for an unknown name or a value out of range.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace shoal::optim
