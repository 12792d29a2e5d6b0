// The Gaussian error linear unit in its tanh form (Hendrycks and Gimpel 2016), for where it is no epilogue of a
// product:
//   gelu(x) = x / 2 (1 + tanh(u)) = x / (1 + exp(-2 u)),   u = sqrt(2 / pi) (x + 0.044715 x^3)
// Arrays of `count` elements of `dtype` (fp32, fp16, bf16) in the GPU's memory; arithmetic is fp32. Fast where they
// begin at multiples of 16 bytes.
#pragma once

#include <cstdint>

#include "kernels/stream.h"
#include "shard/dtype.h"

namespace shoal::kernels {

void gelu(const void* x, void* y, std::int64_t count, DType dtype, Stream stream);  // y = gelu(x)

// Through gelu backward, in one pass over memory. All matrices are contiguous, [rows, columns].
struct GeluBackward {
  std::int64_t rows, columns;
  DType dtype;
  const void* x;
  void* grad;       // of gelu(x) before, of x after
  void* activated;  // gelu(x), written; null: not wanted
  void* sums;       // [columns], those of the columns of the new grad; null: not wanted
  float* partials;  // room for column_sum_partials(rows, columns) numbers where sums are wanted
};
void gelu_backward(const GeluBackward& args, Stream stream);

}  // namespace shoal::kernels
