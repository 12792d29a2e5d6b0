#include "kernels/gelu.h"

#include "kernels/packs.cuh"

namespace shoal::kernels {
namespace {

constexpr int kThreads = 256;
constexpr float kRoot = 0.7978845608028654F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

// 1 / (1 + exp(-2 u)). For 16-bit elements the hardware's exponential and division are exact enough by far.
template <typename T>
__device__ float gate(float x) {
  const float minus_two_u = -2 * kRoot * x * (1 + kCubic * x * x);
  if constexpr (std::is_same_v<T, float>) return 1 / (1 + expf(minus_two_u));
  else return __fdividef(1.0F, 1 + __expf(minus_two_u));
}

struct Gelu {
  template <typename T>
  __device__ static float apply(float x, float /*old*/) {
    return x * gate<T>(x);
  }
};

struct GeluBackward {
  template <typename T>
  __device__ static float apply(float x, float grad) {
    const float g = gate<T>(x);
    // Far out the gate is 0 or 1 in fp32 and the second term is to vanish with it, whatever overflows in the square.
    const float slope = 2 * kRoot * (1 + 3 * kCubic * x * x);
    const float bend = g * (1 - g);
    return grad * (bend == 0 ? g : g + x * bend * slope);
  }
};

// y[i] = Op(x[i], y[i]), a pack a thread; the last thread has what is left over.
template <typename Op, int kSize, typename T>
__global__ void __launch_bounds__(kThreads) map_kernel(const T* __restrict__ x, T* __restrict__ y, std::int64_t count) {
  const std::int64_t pack = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t begin = pack * kSize;
  if (begin + kSize <= count) {
    const Pack<T, kSize> in = load_pack<kSize>(x + begin), old = load_pack<kSize>(y + begin);
    float out[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) out[i] = Op::template apply<T>(to_float(in.values[i]), to_float(old.values[i]));
    store_floats(y + begin, out);
  } else {
    for (std::int64_t i = begin; i < count; ++i)
      y[i] = from_float<T>(Op::template apply<T>(to_float(x[i]), to_float(y[i])));
  }
}

template <typename Op>
void map(const void* x, void* y, std::int64_t count, DType dtype, Stream stream, const char* name) {
  if (count == 0) return;
  const auto launch = [&]<int kSize, typename T>(std::integral_constant<int, kSize>, T) {
    const std::int64_t packs = (count + kSize - 1) / kSize;
    const auto blocks = static_cast<unsigned>((packs + kThreads - 1) / kThreads);
    map_kernel<Op, kSize><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const T*>(x),
                                                                                     static_cast<T*>(y), count);
  };
  with_type(dtype, name, [&]<typename T>(T type) {
    if (is_pack_aligned(x) && is_pack_aligned(y))
      launch(std::integral_constant<int, kPackBytes / sizeof(T)>{}, type);
    else
      launch(std::integral_constant<int, 1>{}, type);
  });
  check_launch(name);
}

}  // namespace

void gelu(const void* x, void* y, std::int64_t count, DType dtype, Stream stream) {
  map<Gelu>(x, y, count, dtype, stream, "gelu");
}

void gelu_backward(const void* x, void* grad, std::int64_t count, DType dtype, Stream stream) {
  map<GeluBackward>(x, grad, count, dtype, stream, "gelu_backward");
}

}  // namespace shoal::kernels
