// Elements in the 16 bytes that a thread loads at once, and their way to fp32 and back.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "kernels/device_error.h"
#include "shard/dtype.h"

namespace shoal::kernels {

inline constexpr int kPackBytes = 16;

template <typename T, int kSize>
struct alignas(kSize * sizeof(T)) Pack {
  T values[kSize];
};

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ T from_float(float value) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(value);
  else
    return value;
}

template <int kSize, typename T>
__device__ Pack<T, kSize> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kSize>*>(from);
}

// From an address that is aligned for one element alone.
template <int kSize, typename T>
__device__ Pack<T, kSize> load_unaligned(const T* from) {
  Pack<T, kSize> pack;
#pragma unroll
  for (int i = 0; i < kSize; ++i) pack.values[i] = from[i];
  return pack;
}

template <typename T, int kSize>
__device__ void store_pack(T* to, const Pack<T, kSize>& pack) {
  *reinterpret_cast<Pack<T, kSize>*>(to) = pack;
}

// Rounds to nearest.
template <typename T, int kSize>
__device__ void store_floats(T* to, const float (&values)[kSize]) {
  Pack<T, kSize> pack;
#pragma unroll
  for (int i = 0; i < kSize; ++i) pack.values[i] = from_float<T>(values[i]);
  store_pack(to, pack);
}

inline bool is_pack_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % kPackBytes == 0; }

// Calls function(T{}) with the type that `dtype` stands for.
template <typename Function>
void with_type(DType dtype, const char* kernel, Function&& function) {
  switch (dtype) {
    case DType::float32: return function(float{});
    case DType::float16: return function(__half{});
    case DType::bfloat16: return function(__nv_bfloat16{});
    default: throw_device_error(kernel, "it takes float32, float16 and bfloat16 alone");
  }
}

inline void check_call(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw_device_error(call, cudaGetErrorString(code));
}

inline void check_launch(const char* kernel) { check_call(cudaGetLastError(), kernel); }

}  // namespace shoal::kernels
