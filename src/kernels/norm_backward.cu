// One pass over the rows by a grid that stays: each block sums the parameters' gradients of its rows in registers and
// writes them once. A second, small kernel adds up the blocks.
#include <algorithm>

#include "kernels/norm.h"
#include "kernels/norm_incoming.cuh"
#include "kernels/norm_rows.cuh"

namespace shoal::kernels {
namespace {

// A block fills the registers of a multiprocessor. Where rows are narrow a second one would find room, but it would
// also double the sums to write.
constexpr int kBlockThreads = 512;

// The weights of a thread's columns, and the sums of their gradients.
template <typename Layout>
struct Columns {
  PackOf<Layout> weights[Layout::kPacks] = {};
  float weight[Layout::kPacks][Layout::kSize] = {}, bias[Layout::kPacks][Layout::kSize] = {};

  __device__ void load(const void* memory, int width, bool aligned) {
    const auto* from = static_cast<const typename Layout::T*>(memory);
#pragma unroll
    for (int k = 0; k < Layout::kPacks; ++k)
      if (Layout::column(k) < width) weights[k] = load_weights<Layout>(from + Layout::column(k), aligned);
  }
};

// Adds the row to the columns' sums. Gives the sums over the row of the gradient of the normed value, and of that times
// the value.
template <typename Layout>
__device__ void add_row(const Row<Layout>& row, Columns<Layout>& columns, float (&sums)[2], int width) {
#pragma unroll
  for (int k = 0; k < Layout::kPacks; ++k) {
    if (Layout::column(k) >= width) continue;
    const PackOf<Layout> grads = row.pack(row.grad, k), xs = row.pack(row.x, k);
#pragma unroll
    for (int i = 0; i < Layout::kSize; ++i) {
      const float grad = to_float(grads.values[i]), normed = (to_float(xs.values[i]) - row.mean) * row.rstd;
      const float inner = grad * to_float(columns.weights[k].values[i]);
      columns.weight[k][i] += grad * normed;
      columns.bias[k][i] += grad;
      sums[0] += inner;
      sums[1] += inner * normed;
    }
  }
}

// dx = rstd (g - mean(g) - n mean(g n)) + grad_sum, with g the gradient of the normed value n.
template <typename Layout>
__device__ void write_dx(const Row<Layout>& row, const Columns<Layout>& columns, const float (&means)[2],
                         typename Layout::T* dx, int width) {
#pragma unroll
  for (int k = 0; k < Layout::kPacks; ++k) {
    if (Layout::column(k) >= width) continue;
    const PackOf<Layout> grads = row.pack(row.grad, k), xs = row.pack(row.x, k);
    const PackOf<Layout> added = row.grad_sum ? row.pack(row.grad_sum, k) : PackOf<Layout>{};
    float values[Layout::kSize];
#pragma unroll
    for (int i = 0; i < Layout::kSize; ++i) {
      const float normed = (to_float(xs.values[i]) - row.mean) * row.rstd;
      const float inner = to_float(grads.values[i]) * to_float(columns.weights[k].values[i]);
      values[i] = row.rstd * (inner - means[0] - normed * means[1]) + to_float(added.values[i]);
    }
    store_floats(dx + Layout::column(k), values);
  }
}

// Adds up the rows of the block, one after the other, and writes the block's sums: weight's, then bias's.
template <typename Layout>
__device__ void write_partials(const Columns<Layout>& own, float* partials, int width) {
  extern __shared__ __align__(kPackBytes) unsigned char memory[];
  float* const carried = reinterpret_cast<float*>(memory);
  const int held = Layout::kPacks * Layout::kSize * blockDim.x;
  __syncthreads();  // no row's packs are in that memory any more
  for (int y = 0; y < blockDim.y; ++y) {
    for (int k = 0; k < Layout::kPacks && threadIdx.y == y; ++k)
#pragma unroll
      for (int i = 0; i < Layout::kSize; ++i) {
        const int slot = (k * Layout::kSize + i) * blockDim.x + threadIdx.x, column = Layout::column(k) + i;
        const float weight = own.weight[k][i] + (y > 0 ? carried[slot] : 0);
        const float bias = own.bias[k][i] + (y > 0 ? carried[held + slot] : 0);
        if (y + 1 < blockDim.y) {
          carried[slot] = weight;
          carried[held + slot] = bias;
        } else if (column < width) {
          partials[column] = weight;
          partials[width + column] = bias;
        }
      }
    __syncthreads();
  }
}

template <typename Layout>
__global__ void __launch_bounds__(Layout::kThreads, 1)
    backward_kernel(NormBackward args, std::int64_t rows, int width, bool weights_aligned) {
  __shared__ float slots[2][kMaxWarps][2];
  Columns<Layout> columns;
  columns.load(args.weight, width, weights_aligned);
  Rows<Layout> incoming(args, rows, width);
  int round = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.y;
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; r < rows; r += stride, round ^= 1) {
    const Row<Layout> row = incoming.take(r, r + stride);
    float sums[2] = {0, 0};
    add_row(row, columns, sums, width);
    row_sum(sums, slots[round], RowBarrier{});
    const float means[2] = {args.mean ? sums[0] / width : 0, sums[1] / width};
    write_dx(row, columns, means, static_cast<typename Layout::T*>(args.dx) + r * width, width);
  }
  if (args.dweight) write_partials(columns, args.partials + std::int64_t{blockIdx.x} * 2 * width, width);
}

// Sums the rows of partials, `blocks` x [2, width], for 32 columns a block.
template <typename T>
__global__ void __launch_bounds__(kWarp* kWarp)
    total_kernel(const float* partials, int blocks, int width, T* dweight, T* dbias) {
  __shared__ float parts[kWarp][kWarp + 1];
  const int column = blockIdx.x * kWarp + threadIdx.x, columns = dbias ? 2 * width : width;
  float sum = 0;
  if (column < columns)
    for (int block = threadIdx.y; block < blocks; block += kWarp)
      sum += partials[std::int64_t{block} * 2 * width + column];
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int y = 1; y < kWarp; ++y) sum += parts[y][threadIdx.x];
  (column < width ? dweight[column] : dbias[column - width]) = from_float<T>(sum);
}

int multiprocessors() {
  int device = 0, count = 0;
  check_call(cudaGetDevice(&device), "cudaGetDevice");
  check_call(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
}

int blocks_for(std::int64_t rows, unsigned rows_of_block) {
  const std::int64_t wanted = (rows + rows_of_block - 1) / rows_of_block, most = multiprocessors();
  return static_cast<int>(wanted < most ? wanted : most);
}

template <typename Layout>
int launch_rows(const NormShape& shape, const NormBackward& args, int row_threads, cudaStream_t stream) {
  const dim3 block = block_of(row_threads, kBlockThreads);
  const int blocks = blocks_for(shape.rows, block.y);
  const std::size_t carried = block.y > 1 ? sizeof(float) * 2 * Layout::kPacks * Layout::kSize * block.x : 0;
  const std::size_t shared = std::max(carried, Rows<Layout>::bytes(block));
  check_call(cudaFuncSetAttribute(backward_kernel<Layout>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared)),
             "cudaFuncSetAttribute");
  const bool weights_aligned = is_pack_aligned(args.weight);
  backward_kernel<Layout>
      <<<blocks, block, shared, stream>>>(args, shape.rows, static_cast<int>(shape.width), weights_aligned);
  check_launch("a norm's backward");
  return blocks;
}

template <typename T>
void launch_total(const NormShape& shape, const NormBackward& args, int blocks, cudaStream_t stream) {
  const auto width = static_cast<int>(shape.width), columns = args.dbias ? 2 * width : width;
  total_kernel<<<(columns + kWarp - 1) / kWarp, dim3(kWarp, kWarp), 0, stream>>>(
      args.partials, blocks, width, static_cast<T*>(args.dweight), static_cast<T*>(args.dbias));
  check_launch("the sum of a norm's parameter gradients");
}

}  // namespace

std::int64_t norm_partials(const NormShape& shape) { return 2 * shape.width * blocks_for(shape.rows, 1); }

void norm_backward(const NormShape& shape, const NormBackward& args, Stream stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const bool rows_aligned = is_pack_aligned(args.grad) && is_pack_aligned(args.grad_sum) && is_pack_aligned(args.x) &&
                            is_pack_aligned(args.dx);
  with_type(shape.dtype, "a norm's backward", [&](auto type) {
    int blocks = 0;
    if (shape.rows > 0)
      with_layout<decltype(type)>(shape.width, rows_aligned, [&](auto layout, int row_threads) {
        blocks = launch_rows<decltype(layout)>(shape, args, row_threads, queue);
      });
    if (args.dweight) launch_total<decltype(type)>(shape, args, blocks, queue);
  });
}

}  // namespace shoal::kernels
