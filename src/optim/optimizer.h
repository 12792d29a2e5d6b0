// Optimizers over flat shards: an element-wise rule, applied to the fp32 (or fp64) master elements a rank holds.
// Nothing here knows of tensors, ranks or modules; the caller owns all memory, and state starts as zeros.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optim/device_step.h"
#include "shard/dtype.h"

namespace shoal::optim {

// `count` elements of one parameter group, on the host. `state[i]` is the array of state_names()[i].
struct FlatSpan {
  DType dtype = DType::float32;  // float32 or float64, of all arrays
  void* param = nullptr;
  const void* grad = nullptr;
  std::vector<void*> state;
  std::int64_t count = 0;
  std::optional<double> weight_decay;  // of the group; unset: the optimizer's
  void* rounded = nullptr;             // gets the new parameters as round_elements() makes them; may be null
  DType rounded_dtype = DType::bfloat16;
};

// The parameter groups of a step on a GPU.
struct GroupFactors {
  std::optional<double> weight_decay;  // unset: the optimizer's
  double lr = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;                      // "adadelta"
  virtual std::vector<std::string> state_names() const = 0;  // torch's own: "square_avg", "acc_delta", "exp_avg", …
  virtual double weight_decay() const = 0;
  // One step: the gradient used is grad * grad_scale. `step` counts from 1 (Adam's bias correction).
  virtual void step(const FlatSpan& span, std::int64_t step, double lr, double grad_scale) const = 0;
  // The same for all spans of `table` on a GPU, whose groups count in `groups`. `dtype` is float32 or float64, of all
  // `arrays` but what they round to. Queued on `stream` (a cudaStream_t).
  virtual void step(DeviceTable& table, DType dtype, std::span<const DeviceArrays> arrays,
                    std::span<const GroupFactors> groups, std::int64_t step, double grad_scale, void* stream) const = 0;
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
