// The gate of a SwiGLU MLP. Contiguous arrays of `count` elements of `dtype` (fp32, fp16, bf16) in the GPU's memory;
// arithmetic is fp32. Fast where all begin at multiples of 16 bytes.
#pragma once

#include <cstdint>

#include "kernels/stream.h"
#include "shard/dtype.h"

namespace shoal::kernels {

struct GateShape {
  std::int64_t count;
  DType dtype;
};

// out = gate * sigmoid(gate) * up
void swiglu(const GateShape& shape, const void* gate, const void* up, void* out, Stream stream);

struct GateGradients {
  const void* grad;  // of `out`
  const void* gate;
  const void* up;
  void* dgate;
  void* dup;
};
void swiglu_backward(const GateShape& shape, const GateGradients& args, Stream stream);

}  // namespace shoal::kernels
