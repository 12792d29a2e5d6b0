#include "kernels/norm.h"
#include "kernels/norm_rows.cuh"

namespace shoal::kernels {
namespace {

constexpr int kWarpRows = 4;  // of a block where a warp has a row to itself

// What a thread holds of a row, in fp32; zero beyond the row's end.
template <typename Layout>
using Held = float[Layout::kPacks][Layout::kSize];

template <typename Layout>
__device__ void load_row(Held<Layout>& held, const NormForward& args, std::int64_t start, int width) {
  using T = typename Layout::T;
  const T* x = static_cast<const T*>(args.x) + start;
  const T* y = static_cast<const T*>(args.y) + start;
  Pack<T, Layout::kSize> a[Layout::kPacks] = {}, b[Layout::kPacks] = {};
#pragma unroll
  for (int k = 0; k < Layout::kPacks; ++k) {
    const int column = Layout::column(k);
    if (column < width) a[k] = load_pack<Layout::kSize>(x + column);
    if (column < width && args.y) b[k] = load_pack<Layout::kSize>(y + column);
  }
#pragma unroll
  for (int k = 0; k < Layout::kPacks; ++k)
#pragma unroll
    for (int i = 0; i < Layout::kSize; ++i) {
      held[k][i] = to_float(a[k].values[i]);
      if (args.y) held[k][i] = to_float(from_float<T>(held[k][i] + to_float(b[k].values[i])));
    }
}

template <typename Layout>
__device__ float mean_of(const Held<Layout>& held, int width, float (*slots)[1]) {
  float total[1] = {0};
#pragma unroll
  for (int k = 0; k < Layout::kPacks; ++k)
#pragma unroll
    for (int i = 0; i < Layout::kSize; ++i) total[0] += held[k][i];
  row_sum(total, slots, BlockBarrier{});
  return total[0] / width;
}

// The mean square distance from `mean`: no difference of large numbers, as E[x^2] - E[x]^2 would be.
template <typename Layout>
__device__ float spread_of(const Held<Layout>& held, float mean, int width, float (*slots)[1]) {
  float total[1] = {0};
#pragma unroll
  for (int k = 0; k < Layout::kPacks; ++k)
#pragma unroll
    for (int i = 0; i < Layout::kSize; ++i) {
      const float distance = Layout::column(k) < width ? held[k][i] - mean : 0;
      total[0] += distance * distance;
    }
  row_sum(total, slots, BlockBarrier{});
  return total[0] / width;
}

template <typename Layout>
__device__ void write_row(const Held<Layout>& held, const NormForward& args, std::int64_t start, int width, float mean,
                          float rstd, bool weights_aligned) {
  using T = typename Layout::T;
  T* normed = static_cast<T*>(args.normed) + start;
#pragma unroll
  for (int k = 0; k < Layout::kPacks; ++k) {
    const int column = Layout::column(k);
    if (column >= width) continue;
    const auto weight = load_weights<Layout>(static_cast<const T*>(args.weight) + column, weights_aligned);
    Pack<T, Layout::kSize> bias = {};
    if (args.bias) bias = load_weights<Layout>(static_cast<const T*>(args.bias) + column, weights_aligned);
    float values[Layout::kSize];
#pragma unroll
    for (int i = 0; i < Layout::kSize; ++i)
      values[i] = (held[k][i] - mean) * rstd * to_float(weight.values[i]) + to_float(bias.values[i]);
    store_floats(normed + column, values);
    if (args.y) store_floats(static_cast<T*>(args.sum) + start + column, held[k]);
  }
}

template <typename Layout>
__global__ void __launch_bounds__(Layout::kThreads)
    forward_kernel(NormForward args, std::int64_t rows, int width, bool weights_aligned) {
  __shared__ float slots[2][kMaxWarps][1];
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  Held<Layout> held;
  load_row<Layout>(held, args, row * width, width);
  const float mean = args.mean ? mean_of<Layout>(held, width, slots[0]) : 0;
  const float rstd = rsqrtf(spread_of<Layout>(held, mean, width, slots[1]) + args.epsilon);
  write_row<Layout>(held, args, row * width, width, mean, rstd, weights_aligned);
  if (threadIdx.x != 0) return;
  args.rstd[row] = rstd;
  if (args.mean) args.mean[row] = mean;
}

}  // namespace

void norm_forward(const NormShape& shape, const NormForward& args, Stream stream) {
  if (shape.rows == 0) return;
  const bool rows_aligned =
      is_pack_aligned(args.x) && is_pack_aligned(args.y) && is_pack_aligned(args.sum) && is_pack_aligned(args.normed);
  const bool weights_aligned = is_pack_aligned(args.weight) && is_pack_aligned(args.bias);
  with_type(shape.dtype, "a norm", [&](auto type) {
    with_layout<decltype(type)>(shape.width, rows_aligned, [&](auto layout, int row_threads) {
      const dim3 block(row_threads, row_threads == kWarp ? kWarpRows : 1);
      const auto blocks = static_cast<unsigned>((shape.rows + block.y - 1) / block.y);
      forward_kernel<decltype(layout)><<<blocks, block, 0, static_cast<cudaStream_t>(stream)>>>(
          args, shape.rows, static_cast<int>(shape.width), weights_aligned);
    });
  });
  check_launch("a norm");
}

}  // namespace shoal::kernels
