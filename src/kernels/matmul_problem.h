// A Matmul in cuBLASLt's words, for matmul.cpp and matmul_choice.cpp.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/matmul.h"

namespace shoal::kernels {

void check_cuda(cudaError_t code, const char* call);                              // DeviceError
void check_cublas(cublasStatus_t code, const char* call, const Matmul& product);  // DeviceError

// What cuBLASLt runs on: its handle of the current device, memory and a queue.
struct MatmulQueue {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  cudaStream_t stream = nullptr;
};

// cuBLASLt counts columns first. A row-major matrix is its transpose there, so d^T = b^T a^T is asked for: cuBLASLt's A
// is our b, its B our a, and its rows are our columns.
class MatmulProblem {
 public:
  explicit MatmulProblem(const Matmul& product);

  // The algorithms that cuBLASLt expects to be fastest, at most `most`; empty where it has none.
  std::vector<cublasLtMatmulAlgo_t> algorithms(const MatmulQueue& queue, int most);
  cublasStatus_t run(const MatmulQueue& queue, const cublasLtMatmulAlgo_t& algorithm);

 private:
  void set_epilogue();

  Matmul product_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t a_, b_, c_, d_;
};

// Products with equal keys take the same algorithm.
using MatmulKey = std::array<std::int64_t, 10>;
MatmulKey key_of(const Matmul& product, int device);

// The algorithm for `product`, chosen by trial on its operands unless it is to be deterministic or `seconds_left` is
// used up; nothing where there is none. Takes off `seconds_left` what the trials cost.
std::optional<cublasLtMatmulAlgo_t> choose_algorithm(const Matmul& product, const MatmulQueue& queue,
                                                     double& seconds_left);

}  // namespace shoal::kernels
