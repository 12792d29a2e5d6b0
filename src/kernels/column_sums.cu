#include "kernels/column_sums.h"

#include <algorithm>

#include "kernels/packs.cuh"

namespace shoal::kernels {
namespace {

constexpr int kLanes = 32, kRows = 8;  // of a block
constexpr int kUnroll = 4;             // loads in flight of a thread

// Block (x, y) adds up rows [y * each, (y + 1) * each) of kLanes * kSize columns and writes row y of `sums`.
template <int kSize, typename In, typename Out>
__global__ void __launch_bounds__(kLanes* kRows)
    sum_kernel(const In* __restrict__ data, std::int64_t rows, std::int64_t columns, std::int64_t stride,
               std::int64_t each, Out* __restrict__ sums) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kLanes * kSize, column = first + threadIdx.x * kSize;
  const std::int64_t begin = blockIdx.y * each, end = min(begin + each, rows);
  float sum[kSize] = {};
  if (column < columns) {
#pragma unroll kUnroll
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kRows) {
      const Pack<In, kSize> pack = load_pack<kSize>(data + row * stride + column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sum[i] += to_float(pack.values[i]);
    }
  }
  __shared__ float part[kRows][kLanes * kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) part[threadIdx.y][threadIdx.x * kSize + i] = sum[i];
  __syncthreads();
  const int mine = threadIdx.y * kLanes + threadIdx.x;
  if (mine >= kLanes * kSize || first + mine >= columns) return;
  float total = 0;
#pragma unroll
  for (int row = 0; row < kRows; ++row) total += part[row][mine];
  sums[blockIdx.y * columns + first + mine] = from_float<Out>(total);
}

std::int64_t slices_of(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kBlocks = 528, kLeastRows = 4 * kRows;  // four blocks for each of Hopper's multiprocessors
  const std::int64_t groups = std::max<std::int64_t>(1, columns / (kLanes * 8));
  return std::clamp<std::int64_t>(rows / kLeastRows, 1, std::max<std::int64_t>(1, kBlocks / groups));
}

template <int kSize, typename In, typename Out>
void launch(const In* data, const ColumnSums& shape, std::int64_t slices, Out* sums, Stream stream) {
  const std::int64_t groups = (shape.columns + kLanes * kSize - 1) / (kLanes * kSize);
  const dim3 grid(static_cast<unsigned>(groups), static_cast<unsigned>(slices));
  sum_kernel<kSize><<<grid, dim3(kLanes, kRows), 0, static_cast<cudaStream_t>(stream)>>>(
      data, shape.rows, shape.columns, shape.stride, (shape.rows + slices - 1) / slices, sums);
  check_launch("column_sums");
}

}  // namespace

std::int64_t column_sum_partials(std::int64_t rows, std::int64_t columns) { return slices_of(rows, columns) * columns; }

void column_sums(const ColumnSums& matrix, void* sums, float* partials, Stream stream) {
  if (matrix.columns == 0) return;
  const std::int64_t slices = slices_of(matrix.rows, matrix.columns);
  with_type(matrix.dtype, "column_sums", [&]<typename T>(T) {
    constexpr int kSize = kPackBytes / sizeof(T);
    const T* data = static_cast<const T*>(matrix.data);
    const bool packs = is_pack_aligned(data) && matrix.stride % kSize == 0 && matrix.columns % kSize == 0;
    if (packs)
      launch<kSize>(data, matrix, slices, partials, stream);
    else
      launch<1>(data, matrix, slices, partials, stream);
    const ColumnSums rest{partials, slices, matrix.columns, matrix.columns, DType::float32};
    launch<1>(static_cast<const float*>(partials), rest, 1, static_cast<T*>(sums), stream);
  });
}

}  // namespace shoal::kernels
