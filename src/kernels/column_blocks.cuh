// How kernels that add up columns lay a matrix over blocks: block (x, y) has kBlockLanes packs of columns of slice y of the
// rows, a thread one pack of every kBlockRows-th row.
#pragma once

#include <cstdint>

#include "kernels/packs.cuh"

namespace shoal::kernels {

inline constexpr int kBlockLanes = 32, kBlockRows = 8;

struct RowSlice {
  std::int64_t begin, end;  // begin: this thread's first row
};
__device__ inline RowSlice slice_of_block(std::int64_t rows, std::int64_t each) {
  const std::int64_t begin = blockIdx.y * each;
  return {begin + threadIdx.y, min(begin + each, rows)};
}

template <int kSize>
__device__ std::int64_t first_column_of_block() {
  return std::int64_t{blockIdx.x} * kBlockLanes * kSize;
}

// Adds up what the block's threads have and writes row blockIdx.y of `sums`, [slices, columns]. All threads come here.
template <int kSize, typename Out>
__device__ void store_block_sums(const float (&sum)[kSize], std::int64_t columns, Out* sums) {
  __shared__ float part[kBlockRows][kBlockLanes * kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) part[threadIdx.y][threadIdx.x * kSize + i] = sum[i];
  __syncthreads();
  const int mine = threadIdx.y * kBlockLanes + threadIdx.x;
  const std::int64_t column = first_column_of_block<kSize>() + mine;
  if (mine >= kBlockLanes * kSize || column >= columns) return;
  float total = 0;
#pragma unroll
  for (int row = 0; row < kBlockRows; ++row) total += part[row][mine];
  sums[blockIdx.y * columns + column] = from_float<Out>(total);
}

template <int kSize>
dim3 column_grid(std::int64_t columns, std::int64_t slices) {
  constexpr std::int64_t kEach = kBlockLanes * kSize;
  return dim3(static_cast<unsigned>((columns + kEach - 1) / kEach), static_cast<unsigned>(slices));
}

}  // namespace shoal::kernels
