// Layer and root-mean-square normalisation of rows, with the addition of a residual branch in the same pass over
// memory. All pointers are to the GPU's memory; rows are contiguous, `width` elements of `dtype` (fp32, fp16, bf16)
// each. Arithmetic is fp32. Fast where rows begin at multiples of 16 bytes; weights may begin anywhere.
#pragma once

#include <cstdint>

#include "kernels/stream.h"
#include "shard/dtype.h"

namespace shoal::kernels {

inline constexpr std::int64_t kMaxNormWidth = 16384;

struct NormShape {
  std::int64_t rows, width;
  DType dtype;
};

// sum = x + y, rounded to dtype; normed = (sum - mean) * rstd * weight + bias.
struct NormForward {
  const void* x;
  const void* y;       // null: nothing is added and `sum` is not written
  const void* weight;  // [width]
  const void* bias;    // [width]; null: none
  void* sum;
  void* normed;
  float* mean;  // [rows]; null: root-mean-square normalisation, which subtracts none
  float* rstd;  // [rows]
  float epsilon;
};
void norm_forward(const NormShape& shape, const NormForward& args, Stream stream);

// The gradient of what was normed, and of weight and bias, which are summed over the rows in an order that depends on
// the shape and the kind of GPU alone.
struct NormBackward {
  const void* grad;      // of `normed`
  const void* grad_sum;  // of `sum`, added to dx; null: none
  const void* x;         // what was normed
  const float* mean;     // null: root-mean-square normalisation
  const float* rstd;
  const void* weight;
  void* dx;
  void* dweight;    // [width]; null: neither this nor dbias is wanted
  void* dbias;      // [width]; null: not wanted
  float* partials;  // room for norm_partials(shape) numbers where dweight is wanted
};
std::int64_t norm_partials(const NormShape& shape);
void norm_backward(const NormShape& shape, const NormBackward& args, Stream stream);

}  // namespace shoal::kernels
