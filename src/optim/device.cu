#include <cuda_runtime_api.h>

#include "kernels/device_error.h"
#include "optim/device.h"
#include "optim/update_rules.h"

namespace shoal::optim {
namespace {

using kernels::throw_device_error;

constexpr int kThreads = 256, kBlocks = 512;

void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw_device_error(call, cudaGetErrorString(code));
}

int blocks_for(std::int64_t count) {
  const std::int64_t wanted = (count + kThreads - 1) / kThreads;
  return static_cast<int>(wanted < 8 * kBlocks ? wanted : 8 * kBlocks);
}

template <typename T, typename Rule>
__global__ void apply_kernel(Rule rule, T* __restrict__ param, const T* __restrict__ grad, T* __restrict__ state0,
                             T* __restrict__ state1, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if constexpr (Rule::kStates == 0)
      rule(param[i], grad[i]);
    else if constexpr (Rule::kStates == 1)
      rule(param[i], grad[i], state0[i]);
    else
      rule(param[i], grad[i], state0[i], state1[i]);
  }
}

// The block's sum in thread 0.
__device__ double block_sum(double value) {
  __shared__ double part[kThreads];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  return part[0];
}

template <typename T>
__global__ void square_kernel(const T* data, std::int64_t count, double* partial) {
  double sum = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    sum += double(data[i]) * double(data[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void total_kernel(double* partial) {
  double sum = 0;
  for (int i = threadIdx.x; i < kBlocks; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[0] = sum;
}

}  // namespace

template <typename T, typename Rule>
void apply_on_device(const Rule& rule, T* param, const T* grad, T* state0, T* state1, std::int64_t count,
                     void* stream) {
  if (count == 0) return;
  apply_kernel<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(rule, param, grad, state0, state1,
                                                                                      count);
  check(cudaGetLastError(), "the optimizer's kernel");
}

double sum_of_squares_on_device(const void* data, DType dtype, std::int64_t count, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  double* partial = nullptr;
  check(cudaMallocAsync(&partial, kBlocks * sizeof(double), queue), "cudaMallocAsync");
  if (dtype == DType::float32)
    square_kernel<<<kBlocks, kThreads, 0, queue>>>(static_cast<const float*>(data), count, partial);
  else if (dtype == DType::float64)
    square_kernel<<<kBlocks, kThreads, 0, queue>>>(static_cast<const double*>(data), count, partial);
  else
    throw_device_error("the sum of squares", "only float32 and float64 are summed");
  total_kernel<<<1, kThreads, 0, queue>>>(partial);
  double sum = 0;
  check(cudaMemcpyAsync(&sum, partial, sizeof sum, cudaMemcpyDeviceToHost, queue), "cudaMemcpyAsync");
  check(cudaFreeAsync(partial, queue), "cudaFreeAsync");
  check(cudaStreamSynchronize(queue), "the sum of squares");
  return sum;
}

#define SHOAL_INSTANTIATE(T, ...) \
  template void apply_on_device<T, __VA_ARGS__>(const __VA_ARGS__&, T*, const T*, T*, T*, std::int64_t, void*);
#include "optim/device_rules.inc"
#undef SHOAL_INSTANTIATE

}  // namespace shoal::optim
