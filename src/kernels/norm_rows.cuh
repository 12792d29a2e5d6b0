// How the rows of a norm are laid over threads: a row belongs to blockDim.x threads (whole warps), and a block has
// blockDim.y rows at a time. A thread holds kPacks packs of kSize neighbouring elements, which lie blockDim.x packs
// apart.
#pragma once

#include <cstdint>

#include "kernels/packs.cuh"

namespace shoal::kernels {

constexpr int kWarp = 32, kMaxWarps = 32;  // of a block

// kMaxThreads: the most that a block has, which decides how many registers a thread may use.
template <typename Type, int kPackSize, int kPackCount, int kMaxThreads>
struct RowLayout {
  using T = Type;
  static constexpr int kSize = kPackSize, kPacks = kPackCount, kThreads = kMaxThreads;

  __device__ static int column(int pack) { return (pack * static_cast<int>(blockDim.x) + threadIdx.x) * kSize; }
};

// Calls function(RowLayout<…>{}, threads of a row) with the layout for rows of `width`. A warp has a row to itself
// while its registers hold it; above that several warps share one, with fewer packs a thread.
template <typename T, typename Function>
void with_layout(std::int64_t width, bool aligned, Function&& function) {
  constexpr int kSize = kPackBytes / sizeof(T);
  const auto threads_for = [](std::int64_t packs, int each) {
    return static_cast<int>((packs + each * kWarp - 1) / (each * kWarp)) * kWarp;
  };
  const std::int64_t packs = width / kSize;
  if (!aligned || width % kSize != 0) return function(RowLayout<T, 1, 16, 1024>{}, threads_for(width, 16));
  if (packs <= kWarp) return function(RowLayout<T, kSize, 1, 512>{}, kWarp);
  if (packs <= 2 * kWarp) return function(RowLayout<T, kSize, 2, 512>{}, kWarp);
  if (packs <= 3 * kWarp) return function(RowLayout<T, kSize, 3, 512>{}, kWarp);
  if (packs <= 1024) return function(RowLayout<T, kSize, 2, 512>{}, threads_for(packs, 2));
  return function(RowLayout<T, kSize, 4, 1024>{}, threads_for(packs, 4));
}

// Several rows to a block where they are short; a row alone where it needs as many threads.
inline dim3 block_of(int row_threads, int block_threads) {
  return dim3(row_threads, row_threads < block_threads ? block_threads / row_threads : 1);
}

// How the threads of a row wait for each other: as the whole block, or alone, where the block has several rows and some
// have more rounds to go. Barrier 0 is __syncthreads()'; of the other 15, at most 8 rows of several warps use one each.
struct BlockBarrier {
  __device__ void wait() const { __syncthreads(); }
};
struct RowBarrier {
  __device__ void wait() const { asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory"); }
};

// The sums over the threads of a row, the same in all of them. `slots` is shared memory of the block that the row's
// threads have left since the barrier before last.
template <int kCount, typename Barrier>
__device__ void row_sum(float (&values)[kCount], float (*slots)[kCount], Barrier barrier) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    for (int mask = kWarp / 2; mask > 0; mask /= 2) values[i] += __shfl_xor_sync(0xffffffffu, values[i], mask);
  if (blockDim.x == kWarp) return;
  const int first = threadIdx.y * blockDim.x / kWarp, warps = blockDim.x / kWarp;
  for (int i = 0; i < kCount; ++i)
    if (threadIdx.x % kWarp == 0) slots[first + threadIdx.x / kWarp][i] = values[i];
  barrier.wait();
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = 0;
  for (int warp = 0; warp < warps; ++warp)
    for (int i = 0; i < kCount; ++i) values[i] += slots[first + warp][i];
}

// The weights of a pack of columns.
template <typename Layout>
__device__ Pack<typename Layout::T, Layout::kSize> load_weights(const typename Layout::T* weights, bool aligned) {
  return aligned ? load_pack<Layout::kSize>(weights) : load_unaligned<Layout::kSize>(weights);
}

}  // namespace shoal::kernels
