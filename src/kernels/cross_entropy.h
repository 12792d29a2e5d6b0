// Cross-entropy of rows of logits and its gradient on the GPU. no_cross_entropy.cpp stands in where the build has no
// CUDA.
#pragma once

#include <cstdint>

#include "kernels/stream.h"
#include "shard/dtype.h"

namespace shoal::kernels {

// Row i has its logits at logits[i * stride] and on; what follows the last one up to the next row is padding.
struct LogitRows {
  void* logits = nullptr;         // on a multiple of 16 bytes
  DType dtype = DType::bfloat16;  // float32, float16 or bfloat16
  std::int64_t count = 0, vocabulary = 0;
  std::int64_t stride = 0;  // elements; 16 bytes divide it
  const std::int64_t* targets = nullptr;
  std::int64_t ignored = 0;  // a target with which a row has no loss and no gradient
};

// losses[i] = log(sum(exp(row i))) - row i[target i], 0 where the target is the ignored one, NaN where it is no other
// place of the row. In fp32, and always added in the same order.
void cross_entropy(const LogitRows& rows, float* losses, Stream stream);

// The same, and each row is replaced by gradient_scale times the gradient of its loss, softmax(row) - onehot(target);
// padding by zeros. A row is read once where shared memory holds it (up to some 115,000 16-bit numbers on Hopper).
void cross_entropy_with_gradient(const LogitRows& rows, float gradient_scale, float* losses, Stream stream);

// out[i] = in[i] * factor[0], in fp32; `factor` is in device memory. `out` may be `in`.
void scale(const void* in, DType in_type, const float* factor, void* out, DType out_type, std::int64_t count,
           Stream stream);

}  // namespace shoal::kernels
