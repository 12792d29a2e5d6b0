// Matrix products on the GPU through cuBLASLt, with what an epilogue of it can do on the way. no_matmul.cpp stands in
// where the build has no CUDA.
#pragma once

#include <cstdint>

#include "kernels/stream.h"
#include "shard/dtype.h"

namespace shoal::kernels {

// All matrices are row-major, in the memory of the current device: element (i, j) at data[i * stride + j].
struct MatmulInput {
  const void* data = nullptr;
  std::int64_t stride = 0;  // elements from one stored row to the next
  bool transposed = false;  // stored as [k, m] (a) or [n, k] (b)
};

// What happens to P = alpha * a b + beta * c, accumulated in fp32, before it is written to d. `vector` and `aux` are of
// the type of d. Column sums are over the rows of a matrix, row sums over its columns.
enum class Epilogue : std::uint8_t {
  none,             // d = P
  bias,             // d = P + vector                          vector [n], read
  gelu_bias,        // d = gelu(P + vector)                    vector [n], read; the tanh form
  gelu_aux_bias,    // aux = P + vector, d = gelu(aux)         vector [n], read; aux [m, n], written
  dgelu,            // d = P * gelu'(aux)                      aux [m, n], read
  dgelu_bias_grad,  // the same, vector = column sums of d     vector [n], written
  row_sums_of_a,    // d = P, vector = row sums of a           vector [m], written
  column_sums_of_b  // d = P, vector = column sums of b        vector [n], written
};

struct Matmul {
  std::int64_t m = 0, n = 0, k = 0;  // d [m, n] = a [m, k] b [k, n]; all at least 1
  MatmulInput a, b;
  DType input = DType::bfloat16;   // of a and b: bfloat16, float16 or float32
  DType output = DType::bfloat16;  // of d, c, vector and aux: that of the inputs, or float32
  void* d = nullptr;
  std::int64_t d_stride = 0;
  float alpha = 1, beta = 0;
  const void* c = nullptr;  // read only where beta is not 0; may be d
  std::int64_t c_stride = 0;
  Epilogue epilogue = Epilogue::none;
  void* vector = nullptr;
  void* aux = nullptr;
  std::int64_t aux_stride = 0;  // a multiple of 8, or there is no algorithm
  bool allow_tf32 = false;      // float32 inputs may be rounded to TF32
  bool deterministic = false;   // the same bits in each run and on each rank: nothing is timed, no sum is split
};

// Queues the product on `stream`, of the current device. Returns false with nothing queued where
// cuBLASLt has no algorithm for it; that depends on everything but the values of pointers, of which their alignment
// counts. DeviceError where a call fails.
//
// The first product of its kind (shapes, strides, types, epilogue, alignment) tries a few algorithms on the operands
// given, which waits for the stream; from then on the fastest is taken without waiting. Products of one stream share a
// workspace of 32 MiB that stays allocated. Safe to call from several threads.
[[nodiscard]] bool try_matmul(const Matmul& product, Stream stream);

// The same for products that every cuBLASLt has: DeviceError, with the shape in it, where it has not.
void matmul(const Matmul& product, Stream stream);

// What choosing algorithms has cost so far in this process, in seconds.
double seconds_spent_on_choice();

}  // namespace shoal::kernels
