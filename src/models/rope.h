// The angles of rotary position embedding (Su et al. 2021; fused/rope.h turns by them), with the frequencies of Llama
// 3.1.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace shoal::models {

struct RopeRule {
  std::int64_t head_size = 0;  // even
  double theta = 10000;
  double scaling = 1;  // Llama 3.1's factor; 1: none
};

// [T, head_size] each, of positions 0 … T - 1. The second half of a row repeats the first.
struct RopeTables {
  at::Tensor cos, sin;
};

// Computed in fp32, then given the dtype and device of `like`.
RopeTables rope_tables(const RopeRule& rule, std::int64_t positions, const at::Tensor& like);

}  // namespace shoal::models
