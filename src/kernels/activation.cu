#include "kernels/activation.h"

#include "kernels/packs.cuh"

namespace shoal::kernels {
namespace {

constexpr int kThreads = 256, kMaxBlocks = 132 * 16;

__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// Calls function(first element) for the packs of this thread.
template <int kSize, typename Function>
__device__ void for_packs(std::int64_t count, Function&& function) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x * kSize;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kSize; i < count; i += stride)
    function(i);
}

template <typename T, int kSize>
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(std::int64_t count, const T* __restrict__ gate, const T* __restrict__ up, T* __restrict__ out) {
  for_packs<kSize>(count, [&](std::int64_t first) {
    const Pack<T, kSize> gates = load_pack<kSize>(gate + first), ups = load_pack<kSize>(up + first);
    float values[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float g = to_float(gates.values[i]);
      values[i] = g * sigmoid(g) * to_float(ups.values[i]);
    }
    store_floats(out + first, values);
  });
}

// d silu(g) / dg = s + g s (1 - s), with s = sigmoid(g).
template <typename T, int kSize>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(std::int64_t count, const T* __restrict__ grad, const T* __restrict__ gate,
                           const T* __restrict__ up, T* __restrict__ dgate, T* __restrict__ dup) {
  for_packs<kSize>(count, [&](std::int64_t first) {
    const Pack<T, kSize> grads = load_pack<kSize>(grad + first), gates = load_pack<kSize>(gate + first),
                         ups = load_pack<kSize>(up + first);
    float for_gate[kSize], for_up[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float d = to_float(grads.values[i]), g = to_float(gates.values[i]), s = sigmoid(g);
      for_gate[i] = d * to_float(ups.values[i]) * (s + g * s * (1 - s));
      for_up[i] = d * g * s;
    }
    store_floats(dgate + first, for_gate);
    store_floats(dup + first, for_up);
  });
}

int blocks_for(std::int64_t count, int size) {
  const std::int64_t wanted = (count + kThreads * size - 1) / (kThreads * size);
  return static_cast<int>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
}

// Calls function(std::integral_constant<int, elements of a pack>).
template <typename T, typename Function>
void with_pack_size(std::int64_t count, bool aligned, Function&& function) {
  constexpr int kSize = kPackBytes / sizeof(T);
  if (aligned && count % kSize == 0)
    function(std::integral_constant<int, kSize>{});
  else
    function(std::integral_constant<int, 1>{});
}

}  // namespace

void swiglu(const GateShape& shape, const void* gate, const void* up, void* out, Stream stream) {
  if (shape.count == 0) return;
  const bool aligned = is_pack_aligned(gate) && is_pack_aligned(up) && is_pack_aligned(out);
  with_type(shape.dtype, "swiglu", [&](auto type) {
    using T = decltype(type);
    with_pack_size<T>(shape.count, aligned, [&](auto size) {
      swiglu_kernel<T, size()><<<blocks_for(shape.count, size()), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          shape.count, static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(out));
    });
  });
  check_launch("swiglu");
}

void swiglu_backward(const GateShape& shape, const GateGradients& args, Stream stream) {
  if (shape.count == 0) return;
  const bool aligned = is_pack_aligned(args.grad) && is_pack_aligned(args.gate) && is_pack_aligned(args.up) &&
                       is_pack_aligned(args.dgate) && is_pack_aligned(args.dup);
  with_type(shape.dtype, "swiglu's backward", [&](auto type) {
    using T = decltype(type);
    with_pack_size<T>(shape.count, aligned, [&](auto size) {
      swiglu_backward_kernel<T, size()>
          <<<blocks_for(shape.count, size()), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
              shape.count, static_cast<const T*>(args.grad), static_cast<const T*>(args.gate),
              static_cast<const T*>(args.up), static_cast<T*>(args.dgate), static_cast<T*>(args.dup));
    });
  });
  check_launch("swiglu's backward");
}

}  // namespace shoal::kernels
