// Sums over the rows of a matrix: a bias's gradient where it is no epilogue of a product.
#pragma once

#include <cstdint>

#include "kernels/stream.h"
#include "shard/dtype.h"

namespace shoal::kernels {

// A row-major matrix in the GPU's memory, of fp32, fp16 or bf16: element (i, j) at data[i * stride + j].
struct ColumnSums {
  const void* data;
  std::int64_t rows, columns, stride;
  DType dtype;
};

std::int64_t column_sum_partials(std::int64_t rows, std::int64_t columns);

// sums[j] = the sum of column j, of the matrix's type, added up in fp32 in an order that depends on the shape alone; 0
// where there are no rows. `partials`: room for column_sum_partials() numbers. Fast where rows begin at multiples of 16
// bytes.
void column_sums(const ColumnSums& matrix, void* sums, float* partials, Stream stream);

// The second half of it, for kernels that make the first on their way: sums[j] = partials[0, j] + … of a contiguous
// [column_sum_slices(rows, columns), columns], where slice i has the sums of rows i * each to (i + 1) * each, each =
// ceil(rows / slices).
std::int64_t column_sum_slices(std::int64_t rows, std::int64_t columns);
void add_partials(const float* partials, std::int64_t slices, std::int64_t columns, DType dtype, void* sums,
                  Stream stream);

}  // namespace shoal::kernels
