#include "kernels/cross_entropy.h"

#include <cfloat>
#include <cmath>

#include "kernels/packs.cuh"

namespace shoal::kernels {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;
constexpr int kAhead = 4;  // loads of a thread that are under way together
constexpr unsigned kAllLanes = 0xFFFFFFFF;

template <typename T>
constexpr int kPackSize = kPackBytes / static_cast<int>(sizeof(T));
template <typename T>
using RowPack = Pack<T, kPackSize<T>>;

// Sum of exp(x - max) over numbers that have come by. The maximum starts at a finite number: -inf - -inf is NaN.
struct ExpSum {
  float max = -FLT_MAX, sum = 0;
};

__device__ ExpSum combine(ExpSum a, ExpSum b) {
  const float max = fmaxf(a.max, b.max);
  return {max, a.sum * __expf(a.max - max) + b.sum * __expf(b.max - max)};
}

template <int kLanes>
__device__ ExpSum combine_lanes(ExpSum mine) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    const ExpSum other{__shfl_xor_sync(kAllLanes, mine.max, step), __shfl_xor_sync(kAllLanes, mine.sum, step)};
    mine = combine(mine, other);
  }
  return mine;
}

// Of the block's threads; the same bits in each of them.
__device__ ExpSum combine_block(ExpSum mine) {
  __shared__ float max_of_warp[kWarps], sum_of_warp[kWarps];
  mine = combine_lanes<32>(mine);
  if (threadIdx.x % 32 == 0) {
    max_of_warp[threadIdx.x / 32] = mine.max;
    sum_of_warp[threadIdx.x / 32] = mine.sum;
  }
  __syncthreads();
  const ExpSum all = combine_lanes<kWarps>({max_of_warp[threadIdx.x % kWarps], sum_of_warp[threadIdx.x % kWarps]});
  return {__shfl_sync(kAllLanes, all.max, 0), __shfl_sync(kAllLanes, all.sum, 0)};
}

// The first `valid` numbers of the pack are logits; there may be none.
template <typename T>
__device__ ExpSum add_pack(ExpSum to, const RowPack<T>& pack, std::int64_t valid) {
  float x[kPackSize<T>];
  float max = to.max;
#pragma unroll
  for (int k = 0; k < kPackSize<T>; ++k) {
    x[k] = k < valid ? to_float(pack.values[k]) : -INFINITY;
    max = fmaxf(max, x[k]);
  }
  float sum = to.sum * __expf(to.max - max);
#pragma unroll
  for (int k = 0; k < kPackSize<T>; ++k) sum += __expf(x[k] - max);
  return {max, sum};
}

// Of the row's logits. What this thread reads it puts into `kept` as well, unless that is null.
template <typename T>
__device__ ExpSum sum_row(const RowPack<T>* row, int packs, std::int64_t vocabulary, RowPack<T>* kept) {
  ExpSum sum;
  for (int first = threadIdx.x; first < packs; first += kAhead * kThreads) {
    RowPack<T> ahead[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (first + k * kThreads < packs) ahead[k] = row[first + k * kThreads];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int place = first + k * kThreads;
      if (place >= packs) break;
      if (kept != nullptr) kept[place] = ahead[k];
      sum = add_pack<T>(sum, ahead[k], vocabulary - std::int64_t{place} * kPackSize<T>);
    }
  }
  return combine_block(sum);
}

// `from` is the row, or a copy of it in shared memory of which each thread reads what it wrote itself.
template <typename T>
__device__ void write_gradient(const RowPack<T>* from, RowPack<T>* row, int packs, std::int64_t vocabulary, ExpSum sum,
                               std::int64_t target, float scale) {
  const float factor = scale / sum.sum;
  for (int place = threadIdx.x; place < packs; place += kThreads) {
    const std::int64_t begin = std::int64_t{place} * kPackSize<T>;
    RowPack<T> pack = from[place];
#pragma unroll
    for (int k = 0; k < kPackSize<T>; ++k) {
      float gradient = __expf(to_float(pack.values[k]) - sum.max) * factor;
      if (begin + k == target) gradient -= scale;
      pack.values[k] = from_float<T>(begin + k < vocabulary ? gradient : 0.0F);
    }
    row[place] = pack;
  }
}

template <typename T>
__device__ void write_zeros(RowPack<T>* row, int packs) {
  RowPack<T> zeros;
#pragma unroll
  for (int k = 0; k < kPackSize<T>; ++k) zeros.values[k] = from_float<T>(0.0F);
  for (int place = threadIdx.x; place < packs; place += kThreads) row[place] = zeros;
}

enum class Mode { loss_alone, kept_row, read_again };

// One block a row.
template <typename T, Mode kMode>
__global__ void __launch_bounds__(kThreads, 2) row_kernel(LogitRows rows, float gradient_scale, float* losses) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* const logits = static_cast<T*>(rows.logits) + std::int64_t{blockIdx.x} * rows.stride;
  auto* const row = reinterpret_cast<RowPack<T>*>(logits);
  const int packs = static_cast<int>(rows.stride / kPackSize<T>);
  const std::int64_t target = rows.targets[blockIdx.x];
  if (target == rows.ignored) {
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if constexpr (kMode != Mode::loss_alone) write_zeros<T>(row, packs);
    return;
  }
  // Read before the block meets in sum_row(): from there on the row is written over.
  float wanted = NAN;
  if (threadIdx.x == 0 && target >= 0 && target < rows.vocabulary) wanted = to_float(logits[target]);
  auto* const kept = kMode == Mode::kept_row ? reinterpret_cast<RowPack<T>*>(shared) : nullptr;
  const ExpSum sum = sum_row<T>(row, packs, rows.vocabulary, kept);
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum.sum) - (wanted - sum.max);
  if constexpr (kMode != Mode::loss_alone)
    write_gradient<T>(kMode == Mode::kept_row ? kept : row, row, packs, rows.vocabulary, sum, target, gradient_scale);
}

// What a block may have beside the kernel's static shared memory, which takes less than 1 KB.
std::int64_t dynamic_shared_bytes() {
  int device = 0, bytes = 0;
  check_call(cudaGetDevice(&device), "cudaGetDevice");
  check_call(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "cudaDeviceGetAttribute");
  return bytes - 1024;
}

template <typename T, Mode kMode>
void launch(const LogitRows& rows, float gradient_scale, float* losses, std::int64_t shared_bytes, Stream stream) {
  const auto kernel = row_kernel<T, kMode>;
  const auto bytes = static_cast<int>(shared_bytes);
  check_call(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "cudaFuncSetAttribute");
  kernel<<<static_cast<unsigned>(rows.count), kThreads, bytes, static_cast<cudaStream_t>(stream)>>>(
      rows, gradient_scale, losses);
  check_launch("the kernel of the cross-entropy");
}

template <typename T>
void run_gradient(const LogitRows& rows, float gradient_scale, float* losses, Stream stream) {
  const auto row_bytes = rows.stride * static_cast<std::int64_t>(sizeof(T));
  if (row_bytes <= dynamic_shared_bytes())
    launch<T, Mode::kept_row>(rows, gradient_scale, losses, row_bytes, stream);
  else
    launch<T, Mode::read_again>(rows, gradient_scale, losses, 0, stream);
}

void check_alignment(const LogitRows& rows) {
  if (!is_pack_aligned(rows.logits) || rows.stride * size_of(rows.dtype) % kPackBytes != 0)
    throw_device_error("the cross-entropy", "rows must begin on a multiple of 16 bytes");
}

template <typename In, typename Out>
__global__ void scale_kernel(const In* in, const float* factor, Out* out, std::int64_t count) {
  const float by = factor[0];
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    out[i] = from_float<Out>(to_float(in[i]) * by);
}

template <typename In, typename Out>
void run_scale(const In* in, const float* factor, Out* out, std::int64_t count, Stream stream) {
  constexpr std::int64_t kMostBlocks = 4096;
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  scale_kernel<<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0,
                 static_cast<cudaStream_t>(stream)>>>(in, factor, out, count);
  check_launch("the kernel that scales a gradient");
}

}  // namespace

void cross_entropy(const LogitRows& rows, float* losses, Stream stream) {
  if (rows.count == 0) return;
  check_alignment(rows);
  with_type(rows.dtype, "the cross-entropy",
            [&](auto number) { launch<decltype(number), Mode::loss_alone>(rows, 0, losses, 0, stream); });
}

void cross_entropy_with_gradient(const LogitRows& rows, float gradient_scale, float* losses, Stream stream) {
  if (rows.count == 0) return;
  check_alignment(rows);
  with_type(rows.dtype, "the cross-entropy",
            [&](auto number) { run_gradient<decltype(number)>(rows, gradient_scale, losses, stream); });
}

void scale(const void* in, DType in_type, const float* factor, void* out, DType out_type, std::int64_t count,
           Stream stream) {
  if (count == 0) return;
  with_type(in_type, "scaling a gradient", [&](auto from) {
    with_type(out_type, "scaling a gradient", [&](auto to) {
      run_scale(static_cast<const decltype(from)*>(in), factor, static_cast<decltype(to)*>(out), count, stream);
    });
  });
}

}  // namespace shoal::kernels
