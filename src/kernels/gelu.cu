#include "kernels/gelu.h"

#include "kernels/column_blocks.cuh"
#include "kernels/column_sums.h"

namespace shoal::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 2;                    // rows in flight of a thread
constexpr float kRoot = 0.7978845608028654F;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

// 1 / (1 + exp(-2 u)). For 16-bit elements the hardware's exponential and division are exact enough by far.
template <typename T>
__device__ float gate(float x) {
  const float minus_two_u = -2 * kRoot * x * (1 + kCubic * x * x);
  if constexpr (std::is_same_v<T, float>)
    return 1 / (1 + expf(minus_two_u));
  else
    return __fdividef(1.0F, 1 + __expf(minus_two_u));
}

// gelu'(x), g = gate(x). Far out the gate is 0 or 1 in fp32 and the second term is to vanish with it, whatever
// overflows in the square.
__device__ float slope(float x, float g) {
  const float bend = g * (1 - g);
  return bend == 0 ? g : g + x * bend * 2 * kRoot * (1 + 3 * kCubic * x * x);
}

// A pack a thread; the last one may be cut.
template <int kSize, typename T>
__global__ void __launch_bounds__(kThreads)
    gelu_kernel(const T* __restrict__ x, T* __restrict__ y, std::int64_t count) {
  const std::int64_t begin = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kSize;
  const auto gelu_of = [](T value) { return to_float(value) * gate<T>(to_float(value)); };
  if (begin + kSize <= count) {
    const Pack<T, kSize> in = load_pack<kSize>(x + begin);
    float out[kSize];
#pragma unroll
    for (int i = 0; i < kSize; ++i) out[i] = gelu_of(in.values[i]);
    store_floats(y + begin, out);
  } else {
    for (std::int64_t i = begin; i < count; ++i) y[i] = from_float<T>(gelu_of(x[i]));
  }
}

// The new gradients of a pack in place of the old ones, added to `sum`, and the activation where it is wanted.
template <int kSize, typename T>
__device__ void backward_pack(const Pack<T, kSize>& x, const Pack<T, kSize>& grad, T* new_grad, T* activated,
                              float (&sum)[kSize]) {
  float gradients[kSize], values[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const float value = to_float(x.values[i]), g = gate<T>(value);
    gradients[i] = to_float(grad.values[i]) * slope(value, g);
    values[i] = value * g;
    sum[i] += gradients[i];
  }
  store_floats(new_grad, gradients);
  if (activated != nullptr) store_floats(activated, values);
}

template <int kSize, typename T>
__global__ void __launch_bounds__(kBlockLanes* kBlockRows)
    backward_kernel(const T* __restrict__ x, T* __restrict__ grad, T* __restrict__ activated, std::int64_t rows,
                    std::int64_t columns, std::int64_t each, float* __restrict__ partials) {
  const std::int64_t column = first_column_of_block<kSize>() + threadIdx.x * kSize;
  float sum[kSize] = {};
  if (column < columns) {
    const RowSlice slice = slice_of_block(rows, each);
#pragma unroll kUnroll
    for (std::int64_t row = slice.begin; row < slice.end; row += kBlockRows) {
      const std::int64_t place = row * columns + column;
      backward_pack<kSize>(load_pack<kSize>(x + place), load_pack<kSize>(grad + place), grad + place,
                           activated != nullptr ? activated + place : nullptr, sum);
    }
  }
  if (partials != nullptr) store_block_sums(sum, columns, partials);
}

template <int kSize, typename T>
void launch_gelu(const T* x, T* y, std::int64_t count, Stream stream) {
  const std::int64_t packs = (count + kSize - 1) / kSize;
  gelu_kernel<kSize>
      <<<static_cast<unsigned>((packs + kThreads - 1) / kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          x, y, count);
  check_launch("gelu");
}

template <int kSize, typename T>
void launch_backward(const GeluBackward& args, std::int64_t slices, Stream stream) {
  backward_kernel<kSize><<<column_grid<kSize>(args.columns, slices), dim3(kBlockLanes, kBlockRows), 0,
                           static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(args.x), static_cast<T*>(args.grad), static_cast<T*>(args.activated), args.rows,
      args.columns, (args.rows + slices - 1) / slices, args.sums != nullptr ? args.partials : nullptr);
  check_launch("gelu_backward");
}

}  // namespace

void gelu(const void* x, void* y, std::int64_t count, DType dtype, Stream stream) {
  if (count == 0) return;
  with_type(dtype, "gelu", [&]<typename T>(T) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    if (is_pack_aligned(x) && is_pack_aligned(y))
      launch_gelu<kPackBytes / sizeof(T)>(from, to, count, stream);
    else
      launch_gelu<1>(from, to, count, stream);
  });
}

void gelu_backward(const GeluBackward& args, Stream stream) {
  if (args.columns == 0) return;
  const std::int64_t slices = column_sum_slices(args.rows, args.columns);
  with_type(args.dtype, "gelu_backward", [&]<typename T>(T) {
    constexpr int kSize = kPackBytes / sizeof(T);
    const bool packs = args.columns % kSize == 0 && is_pack_aligned(args.x) && is_pack_aligned(args.grad) &&
                       is_pack_aligned(args.activated);
    if (packs)
      launch_backward<kSize, T>(args, slices, stream);
    else
      launch_backward<1, T>(args, slices, stream);
  });
  if (args.sums != nullptr) add_partials(args.partials, slices, args.columns, args.dtype, args.sums, stream);
}

}  // namespace shoal::kernels
