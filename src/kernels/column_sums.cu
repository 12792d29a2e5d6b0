#include "kernels/column_sums.h"

#include <algorithm>

#include "kernels/column_blocks.cuh"

namespace shoal::kernels {
namespace {

constexpr int kUnroll = 4;  // loads in flight of a thread

template <int kSize, typename In, typename Out>
__global__ void __launch_bounds__(kBlockLanes* kBlockRows)
    sum_kernel(const In* __restrict__ data, std::int64_t rows, std::int64_t columns, std::int64_t stride,
               std::int64_t each, Out* __restrict__ sums) {
  const std::int64_t column = first_column_of_block<kSize>() + threadIdx.x * kSize;
  float sum[kSize] = {};
  if (column < columns) {
    const RowSlice slice = slice_of_block(rows, each);
#pragma unroll kUnroll
    for (std::int64_t row = slice.begin; row < slice.end; row += kBlockRows) {
      const Pack<In, kSize> pack = load_pack<kSize>(data + row * stride + column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sum[i] += to_float(pack.values[i]);
    }
  }
  store_block_sums(sum, columns, sums);
}

template <int kSize, typename In, typename Out>
void launch(const In* data, const ColumnSums& shape, std::int64_t slices, Out* sums, Stream stream) {
  sum_kernel<kSize><<<column_grid<kSize>(shape.columns, slices), dim3(kBlockLanes, kBlockRows), 0,
                      static_cast<cudaStream_t>(stream)>>>(data, shape.rows, shape.columns, shape.stride,
                                                           (shape.rows + slices - 1) / slices, sums);
  check_launch("column_sums");
}

}  // namespace

std::int64_t column_sum_slices(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kBlocks = 528, kLeastRows = 4 * kBlockRows;  // four blocks a multiprocessor of Hopper
  const std::int64_t groups = std::max<std::int64_t>(1, columns / (kBlockLanes * 8));
  return std::clamp<std::int64_t>(rows / kLeastRows, 1, std::max<std::int64_t>(1, kBlocks / groups));
}

std::int64_t column_sum_partials(std::int64_t rows, std::int64_t columns) {
  return column_sum_slices(rows, columns) * columns;
}

void column_sums(const ColumnSums& matrix, void* sums, float* partials, Stream stream) {
  if (matrix.columns == 0) return;
  const std::int64_t slices = column_sum_slices(matrix.rows, matrix.columns);
  with_type(matrix.dtype, "column_sums", [&]<typename T>(T) {
    constexpr int kSize = kPackBytes / sizeof(T);
    const T* data = static_cast<const T*>(matrix.data);
    const bool packs = is_pack_aligned(data) && matrix.stride % kSize == 0 && matrix.columns % kSize == 0;
    if (packs)
      launch<kSize>(data, matrix, slices, partials, stream);
    else
      launch<1>(data, matrix, slices, partials, stream);
  });
  add_partials(partials, slices, matrix.columns, matrix.dtype, sums, stream);
}

void add_partials(const float* partials, std::int64_t slices, std::int64_t columns, DType dtype, void* sums,
                  Stream stream) {
  if (columns == 0) return;
  const ColumnSums matrix{partials, slices, columns, columns, DType::float32};
  with_type(dtype, "column_sums",
            [&]<typename T>(T) { launch<1>(partials, matrix, /*slices=*/1, static_cast<T*>(sums), stream); });
}

}  // namespace shoal::kernels
