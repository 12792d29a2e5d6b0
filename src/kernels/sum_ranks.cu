#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device_error.h"
#include "kernels/sum_ranks.h"

namespace shoal::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 2048;
constexpr int kRegisterRows = 16;  // rows that are added up in registers
constexpr int kLevels = 24;        // of the tree above them, enough for 2^28 ranks

// Moved 16 bytes at a time, where it has as many.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth < 16 ? sizeof(T) * kWidth : 16) Vector {
  T at[kWidth];
};

__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float widened(__half x) { return __half2float(x); }
__device__ float widened(float x) { return x; }
__device__ double widened(double x) { return x; }

template <typename A, int kWidth>
__device__ void add_to(Vector<A, kWidth>& left, const Vector<A, kWidth>& right) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) left.at[i] += right.at[i];
}

// The tree over kRows rows, a power of two, of which `present` are there: a missing one counts as -0, which changes no
// bit of what it is added to, so that an odd one out moves up.
template <int kRows, typename A, int kWidth, typename T>
__device__ __forceinline__ Vector<A, kWidth> tree(const T* rows, std::int64_t count, int present) {
  Vector<A, kWidth> sum;
  if constexpr (kRows > 1) {
    sum = tree<kRows / 2, A, kWidth>(rows, count, present);
    add_to(sum, tree<kRows / 2, A, kWidth>(rows + kRows / 2 * count, count, present - kRows / 2));
  } else if (present > 0) {
    const auto row = *reinterpret_cast<const Vector<T, kWidth>*>(rows);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum.at[i] = static_cast<A>(widened(row.at[i]));
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum.at[i] = static_cast<A>(-0.0);
  }
  return sum;
}

// More rows than go into registers: trees over kRegisterRows of them are paired as a binary counter counts.
template <typename A, int kWidth, typename T>
__device__ Vector<A, kWidth> tall_tree(const T* rows, std::int64_t count, int ranks) {
  Vector<A, kWidth> waiting[kLevels];  // waiting[l]: the sum of 2^l of these trees
  const int trees = (ranks + kRegisterRows - 1) / kRegisterRows;
  for (int t = 0; t < trees; ++t) {
    const std::int64_t first = std::int64_t{t} * kRegisterRows;
    auto sum = tree<kRegisterRows, A, kWidth>(rows + first * count, count, ranks - static_cast<int>(first));
    int level = 0;
    for (; (t >> level) & 1; ++level) add_to(sum, waiting[level]);
    waiting[level] = sum;
  }
  int level = 0;
  while (((trees >> level) & 1) == 0) ++level;
  Vector<A, kWidth> sum = waiting[level];
  for (++level; (trees >> level) != 0; ++level)
    if ((trees >> level) & 1) add_to(sum, waiting[level]);
  return sum;
}

// kRows: as many rows as a tree in registers has, 0 for a tall one.
template <int kRows, int kWidth, typename A, typename T>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const T* __restrict__ rows, A* __restrict__ to, std::int64_t count, int ranks, bool add) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x * kWidth;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kWidth; i < count; i += stride) {
    Vector<A, kWidth> sum;
    if constexpr (kRows > 0)
      sum = tree<kRows, A, kWidth>(rows + i, count, ranks);
    else
      sum = tall_tree<A, kWidth>(rows + i, count, ranks);
    auto* const place = reinterpret_cast<Vector<A, kWidth>*>(to + i);
    if (add) add_to(sum, *place);
    *place = sum;
  }
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

template <int kRows, int kWidth, typename A, typename T>
void launch(const RankRows& rows, const RankSum& to, cudaStream_t stream) {
  const std::int64_t wanted = (rows.count + kThreads * kWidth - 1) / (kThreads * kWidth);
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  sum_kernel<kRows, kWidth, A, T><<<blocks, kThreads, 0, stream>>>(
      static_cast<const T*>(rows.data), static_cast<A*>(to.data), rows.count, rows.ranks, to.add);
  const cudaError_t code = cudaGetLastError();
  if (code != cudaSuccess) throw_device_error("the sum over ranks", cudaGetErrorString(code));
}

template <int kWidth, typename A, typename T>
void sum_typed(const RankRows& rows, const RankSum& to, cudaStream_t stream) {
  if (rows.ranks <= 2) return launch<2, kWidth, A, T>(rows, to, stream);
  if (rows.ranks <= 4) return launch<4, kWidth, A, T>(rows, to, stream);
  if (rows.ranks <= 8) return launch<8, kWidth, A, T>(rows, to, stream);
  if (rows.ranks <= kRegisterRows) return launch<kRegisterRows, kWidth, A, T>(rows, to, stream);
  launch<0, kWidth, A, T>(rows, to, stream);
}

template <typename A, typename T>
void sum_typed(const RankRows& rows, const RankSum& to, cudaStream_t stream) {
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  if (is_aligned(rows.data) && is_aligned(to.data) && rows.count % kWidth == 0)  // then each row is aligned too
    sum_typed<kWidth, A, T>(rows, to, stream);
  else
    sum_typed<1, A, T>(rows, to, stream);
}

template <typename A>
void sum_into(const RankRows& rows, const RankSum& to, cudaStream_t stream) {
  switch (rows.dtype) {
    case DType::bfloat16: return sum_typed<A, __nv_bfloat16>(rows, to, stream);
    case DType::float16: return sum_typed<A, __half>(rows, to, stream);
    case DType::float32: return sum_typed<A, float>(rows, to, stream);
    default: return sum_typed<double, double>(rows, to, stream);
  }
}

}  // namespace

void sum_ranks_on_device(const RankRows& rows, const RankSum& to, void* stream) {
  if (!is_summable(rows.dtype, to.dtype) || rows.ranks < 1)
    throw_device_error("the sum over ranks", "these element types cannot be summed");
  if (rows.count == 0) return;
  const auto queue = static_cast<cudaStream_t>(stream);
  if (to.dtype == DType::float32)
    sum_into<float>(rows, to, queue);
  else
    sum_into<double>(rows, to, queue);
}

}  // namespace shoal::kernels
