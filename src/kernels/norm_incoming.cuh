// How a norm's backward gets at its rows.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>
#include <type_traits>

#include "kernels/norm.h"
#include "kernels/norm_rows.cuh"

namespace shoal::kernels {

template <typename Layout>
using PackOf = Pack<typename Layout::T, Layout::kSize>;

// What a thread reads of a row, in the GPU's memory or brought to shared memory: its pack k lies k * blockDim.x packs
// behind its first.
template <typename Layout>
struct Row {
  using T = typename Layout::T;
  const T* grad;
  const T* x;
  const T* grad_sum;  // null: none
  float mean, rstd;

  __device__ static PackOf<Layout> pack(const T* first, int k) {
    return load_pack<Layout::kSize>(first + k * blockDim.x * Layout::kSize);
  }
};

__device__ inline float mean_of(const NormBackward& args, std::int64_t row) { return args.mean ? args.mean[row] : 0; }

// Where rows are read twice from the GPU's memory, the second time from its cache.
template <typename Layout>
class DirectRows {
  using T = typename Layout::T;

 public:
  static constexpr std::size_t bytes(dim3 /*block*/) { return 0; }
  __device__ DirectRows(const NormBackward& args, std::int64_t /*rows*/, int width) : args_(args), width_(width) {}

  __device__ Row<Layout> take(std::int64_t row, std::int64_t /*next*/) const {
    const std::int64_t first = row * width_ + Layout::column(0);
    return {.grad = static_cast<const T*>(args_.grad) + first,
            .x = static_cast<const T*>(args_.x) + first,
            .grad_sum = args_.grad_sum ? static_cast<const T*>(args_.grad_sum) + first : nullptr,
            .mean = mean_of(args_, row),
            .rstd = args_.rstd[row]};
  }

 private:
  const NormBackward& args_;
  int width_;
};

// Where each thread copies its packs of the next row to shared memory while it works on the present one. It reads back
// its own alone, so that no barrier is needed, and registers are left for the columns' sums.
template <typename Layout>
class PrefetchedRows {
  using T = typename Layout::T;
  static constexpr int kArrays = 3, kStages = 2;

 public:
  static constexpr std::size_t bytes(dim3 block) {
    return sizeof(PackOf<Layout>) * kStages * kArrays * Layout::kPacks * block.x * block.y;
  }
  __device__ PrefetchedRows(const NormBackward& args, std::int64_t rows, int width)
      : args_(args), rows_(rows), width_(width) {
    request(std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y);
  }

  // `next`: the row that is taken after this one.
  __device__ Row<Layout> take(std::int64_t /*row*/, std::int64_t next) {
    const int stage = stage_;
    Row<Layout> row{.grad = slot(stage, 0, 0),
                    .x = slot(stage, 1, 0),
                    .grad_sum = args_.grad_sum ? slot(stage, 2, 0) : nullptr,
                    .mean = mean_,
                    .rstd = rstd_};
    stage_ ^= 1;
    request(next);
    __pipeline_wait_prior(1);
    return row;
  }

 private:
  __device__ static T* slot(int stage, int array, int k) {
    extern __shared__ __align__(kPackBytes) unsigned char memory[];
    const int row_of_packs = ((threadIdx.y * kStages + stage) * kArrays + array) * Layout::kPacks + k;
    return reinterpret_cast<T*>(memory) + (row_of_packs * blockDim.x + threadIdx.x) * Layout::kSize;
  }

  __device__ void copy(const void* memory, std::int64_t row, int array) {
    const T* from = static_cast<const T*>(memory) + row * width_;
#pragma unroll
    for (int k = 0; k < Layout::kPacks; ++k)
      if (Layout::column(k) < width_)
        __pipeline_memcpy_async(slot(stage_, array, k), from + Layout::column(k), kPackBytes);
  }

  // A row beyond the last is an empty request, so that requests can be counted.
  __device__ void request(std::int64_t row) {
    if (row < rows_) {
      copy(args_.grad, row, 0);
      copy(args_.x, row, 1);
      if (args_.grad_sum) copy(args_.grad_sum, row, 2);
      mean_ = mean_of(args_, row);
      rstd_ = args_.rstd[row];
    }
    __pipeline_commit();
  }

  const NormBackward& args_;
  std::int64_t rows_;
  int width_, stage_ = 0;
  float mean_ = 0, rstd_ = 0;
};

template <typename Layout>
using Rows = std::conditional_t<sizeof(PackOf<Layout>) == kPackBytes && Layout::kPacks <= 3, PrefetchedRows<Layout>,
                                DirectRows<Layout>>;

}  // namespace shoal::kernels
