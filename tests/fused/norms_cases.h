// Both norms, with and without the addition before it, as one function each of their inputs.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace shoal::testing {

struct NormCase {
  bool centred = true;  // layer normalisation; else root-mean-square
  bool add = false;
  std::int64_t rows = 0, width = 0;
  at::ScalarType type = at::kFloat;
  std::uint64_t seed = 1;

  std::string name() const;
};

// y is undefined where nothing is added, bias where there is none. Leaves that want gradients.
struct NormInputs {
  at::Tensor x, y, weight, bias;
};
NormInputs norm_inputs(const NormCase& c, at::Device device);
// The same values in float64 on the CPU.
NormInputs exact(const NormInputs& inputs);

struct NormOutputs {
  at::Tensor sum, normed;  // without an addition sum is x itself
};
NormOutputs fused_norm(const NormCase& c, const NormInputs& inputs);
NormOutputs reference_norm(const NormCase& c, const NormInputs& inputs);
// Straight through the dispatcher, on whatever device: what fused_norm() does on a GPU.
NormOutputs operator_norm(const NormCase& c, const NormInputs& inputs);

constexpr double kNormEpsilon = 1e-5;

}  // namespace shoal::testing
