#include "optim/device_squares.h"

#include <vector>

#include "optim/device_memory.h"
#include "optim/device_table.h"

namespace shoal::optim {
namespace {

constexpr int kThreads = 256, kTotalThreads = 1024;
constexpr int kLimbs = ExactSumOfSquares::kLimbs, kDigits = ExactSumOfSquares::kDigits;
// Each thread of the exact sum has limbs of its own in shared memory; three such blocks fit a multiprocessor.
constexpr int kExactThreads = 128, kExactBlocks = 512;
constexpr std::size_t kExactBytes = std::size_t{kExactThreads} * kLimbs * sizeof(std::int64_t);

template <typename T>
__device__ double square_of(T value) {
  const auto x = static_cast<double>(value);
  return __dmul_rn(x, x);
}

// Calls each(square) for this thread's elements of a piece, in their order.
template <int kBlock, typename T, typename Each>
__device__ void for_each_square(const T* data, const DevicePiece& piece, Each&& each) {
#pragma unroll 8
  for (std::int64_t i = piece.begin + threadIdx.x; i < piece.end; i += kBlock) each(square_of(data[i]));
}
template <int kBlock, typename Each>
__device__ void for_each_square(const DeviceValues& array, const DevicePiece& piece, Each&& each) {
  if (array.data == nullptr) return;
  if (array.dtype == DType::float32)
    for_each_square<kBlock>(static_cast<const float*>(array.data), piece, each);
  else
    for_each_square<kBlock>(static_cast<const double*>(array.data), piece, each);
}

// The block's sum in thread 0. The order of the additions is that of the threads' numbers, as a tree.
template <int kBlock>
__device__ double block_sum(double value) {
  __shared__ double part[kBlock];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  return part[0];
}

__global__ void __launch_bounds__(kThreads)
    square_kernel(const DevicePiece* pieces, const DeviceValues* arrays, double* partial) {
  const DevicePiece piece = pieces[blockIdx.x];
  double sum = 0;
  for_each_square<kThreads>(arrays[piece.array], piece, [&sum](double square) { sum += square; });
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kTotalThreads)
    total_kernel(const double* partial, std::int64_t count, double* total) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kTotalThreads) sum += partial[i];
  sum = block_sum<kTotalThreads>(sum);
  if (threadIdx.x == 0) *total = sum;
}

// Limb l of thread t lies at l * kExactThreads + t: threads of a warp never meet in a bank.
class Limbs {
 public:
  __device__ explicit Limbs(std::int64_t* all) : mine_(all + threadIdx.x) {}
  __device__ std::int64_t& operator[](int limb) { return mine_[limb * kExactThreads]; }

 private:
  std::int64_t* mine_;
};

// add_square() of exact_sum.cpp.
__device__ void add_square(Limbs& limbs, double square) {
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(square));
  const int exponent = static_cast<int>(bits >> 52) & 0x7FF;
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == 0x7FF) {
    ++limbs[fraction != 0 ? kDigits + 1 : kDigits];
    return;
  }
  const std::uint64_t mantissa = fraction | (std::uint64_t{exponent != 0} << 52);
  const int place = exponent > 1 ? exponent - 1 : 0, shift = place % 32, digit = place / 32;
  const std::uint64_t low = mantissa << shift;
  limbs[digit] += static_cast<std::int64_t>(low & 0xFFFFFFFF);
  limbs[digit + 1] += static_cast<std::int64_t>(low >> 32);
  limbs[digit + 2] += static_cast<std::int64_t>((mantissa >> 1) >> (63 - shift));
}

// The sums of the block's limbs, thread l's of limb l; their carries, so that many blocks can be added up; into
// `total`.
__device__ void add_to_total(const std::int64_t* limbs, unsigned long long* total) {
  __shared__ std::int64_t sums[kLimbs];
  if (threadIdx.x < kLimbs) {
    std::int64_t sum = 0;
    for (int t = 0; t < kExactThreads; ++t)
      sum += limbs[threadIdx.x * kExactThreads + (t + threadIdx.x) % kExactThreads];
    sums[threadIdx.x] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    std::int64_t over = 0;
    for (int d = 0; d < kDigits; ++d) {
      const std::int64_t digit = sums[d] + over;
      over = digit >> 32;
      sums[d] = digit & 0xFFFFFFFF;
    }
  }
  __syncthreads();
  if (threadIdx.x < kLimbs && sums[threadIdx.x] != 0)
    atomicAdd(total + threadIdx.x, static_cast<unsigned long long>(sums[threadIdx.x]));
}

// Sums of integers: the order in which threads and blocks come changes nothing. A block adds fewer than 2^30 numbers.
__global__ void __launch_bounds__(kExactThreads)
    exact_kernel(const DevicePiece* pieces, std::int64_t count, const DeviceValues* arrays, unsigned long long* total) {
  extern __shared__ std::int64_t all[];
  Limbs limbs(all);
  for (int l = 0; l < kLimbs; ++l) limbs[l] = 0;
  for (std::int64_t p = blockIdx.x; p < count; p += gridDim.x) {
    const DevicePiece piece = pieces[p];
    for_each_square<kExactThreads>(arrays[piece.array], piece, [&limbs](double square) { add_square(limbs, square); });
  }
  __syncthreads();
  add_to_total(all, total);
}

std::vector<DeviceSpan> whole_arrays(std::span<const std::int64_t> counts) {
  std::vector<DeviceSpan> spans;
  for (std::size_t i = 0; i < counts.size(); ++i) spans.push_back({static_cast<std::int32_t>(i), 0, 0, counts[i]});
  return spans;
}

}  // namespace

struct DeviceSquares::Buffers {
  explicit Buffers(std::span<const std::int64_t> counts)
      : table(whole_arrays(counts)), partial((table.size() + 1) * sizeof(double)) {}

  const DeviceValues* upload(std::span<const DeviceValues> arrays, void* stream) {
    return static_cast<const DeviceValues*>(table.upload(arrays.data(), arrays.size_bytes(), stream));
  }
  void fetch(const void* from, std::size_t bytes, cudaStream_t queue) {
    check_cuda(cudaMemcpyAsync(result.as<void>(), from, bytes, cudaMemcpyDeviceToHost, queue), "cudaMemcpyAsync");
  }

  DeviceTable table;
  DeviceMemory partial, limbs{kLimbs * sizeof(std::int64_t)};
  PinnedMemory result{kLimbs * sizeof(std::int64_t)};
};

DeviceSquares::DeviceSquares(std::span<const std::int64_t> counts) : buffers_(std::make_unique<Buffers>(counts)) {}
DeviceSquares::~DeviceSquares() = default;

void DeviceSquares::start(std::span<const DeviceValues> arrays, void* stream) {
  const std::int64_t pieces = buffers_->table.size();
  if (pieces == 0) return;
  auto* const queue = static_cast<cudaStream_t>(stream);
  auto* const partial = buffers_->partial.as<double>();
  square_kernel<<<static_cast<unsigned>(pieces), kThreads, 0, queue>>>(buffers_->table.pieces(),
                                                                       buffers_->upload(arrays, stream), partial);
  check_cuda(cudaGetLastError(), "the sum of squares");
  total_kernel<<<1, kTotalThreads, 0, queue>>>(partial, pieces, partial + pieces);
  check_cuda(cudaGetLastError(), "the sum of squares");
  buffers_->fetch(partial + pieces, sizeof(double), queue);
}

double DeviceSquares::finish(void* stream) {
  if (buffers_->table.size() == 0) return 0;
  check_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "the sum of squares");
  return *buffers_->result.as<double>();
}

void DeviceSquares::add_exactly(std::span<const DeviceValues> arrays, ExactSumOfSquares& total, void* stream) {
  const std::int64_t pieces = buffers_->table.size();
  if (pieces == 0) return;
  auto* const queue = static_cast<cudaStream_t>(stream);
  check_cuda(cudaFuncSetAttribute(exact_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kExactBytes),
             "cudaFuncSetAttribute");
  auto* const limbs = buffers_->limbs.as<unsigned long long>();
  check_cuda(cudaMemsetAsync(limbs, 0, buffers_->limbs.bytes(), queue), "cudaMemsetAsync");
  const auto blocks = static_cast<unsigned>(pieces < kExactBlocks ? pieces : kExactBlocks);
  exact_kernel<<<blocks, kExactThreads, kExactBytes, queue>>>(buffers_->table.pieces(), pieces,
                                                              buffers_->upload(arrays, stream), limbs);
  check_cuda(cudaGetLastError(), "the exact sum of squares");
  buffers_->fetch(limbs, buffers_->limbs.bytes(), queue);
  check_cuda(cudaStreamSynchronize(queue), "the exact sum of squares");
  const std::span<std::int64_t, kLimbs> sum = total.limbs();
  for (int l = 0; l < kLimbs; ++l) sum[l] += buffers_->result.as<std::int64_t>()[l];
}

}  // namespace shoal::optim
