// Rotary position embedding: turns the pairs (x_i, x_{i + d/2}) of each head by the angle of its position.
#pragma once

#include <cstdint>

#include "kernels/stream.h"
#include "shard/dtype.h"

namespace shoal::kernels {

// x: `places` rows of heads x d elements of `dtype` (fp32, fp16, bf16) in the GPU's memory, `row_stride` elements from
// one to the next; place p has position p % length. cos and sin: [length, d], of which the first half of each row is
// read. out: the same without gaps. `backward` turns the other way, which is the gradient. Arithmetic is fp32. Fast
// where d is a multiple of 16 (8 in fp32) and all rows begin at multiples of 16 bytes.
struct Rotation {
  const void* x;
  const void* cos;
  const void* sin;
  void* out;
  std::int64_t places, length, row_stride;
  int heads, d;
  DType dtype;
  bool backward;
};
void rotate(const Rotation& args, Stream stream);

}  // namespace shoal::kernels
