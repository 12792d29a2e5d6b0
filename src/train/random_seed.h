// The seed of LibTorch's generators at each micro-step: dropout is a pure function of (seed, step, micro-step, rank).
// So there is no generator state to save, and a restart draws what the run without a stop would have drawn.
#pragma once

#include <cstdint>

#include "core/hash.h"

namespace shoal::train {

// 63 bits, what torch.manual_seed() takes in Python. `step` and `micro_step` count from 0. docs/training.md gives the
// formula in Python.
constexpr std::uint64_t micro_step_seed(std::uint64_t seed, std::int64_t step, std::int64_t micro_step, int rank) {
  std::uint64_t h = hash_combine(hash_string("micro-step"), seed);
  h = hash_combine(h, static_cast<std::uint64_t>(step));
  h = hash_combine(h, static_cast<std::uint64_t>(micro_step));
  return hash_combine(h, static_cast<std::uint64_t>(rank)) >> 1;
}

// Where a model's constructor draws from LibTorch's generators: before it is built.
constexpr std::uint64_t model_seed(std::uint64_t seed) { return hash_combine(hash_string("model"), seed) >> 1; }

}  // namespace shoal::train
