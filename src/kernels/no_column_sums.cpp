#include "core/error.h"
#include "kernels/column_sums.h"

namespace shoal::kernels {

std::int64_t column_sum_partials(std::int64_t /*rows*/, std::int64_t /*columns*/) { return 0; }

void column_sums(const ColumnSums& /*matrix*/, void* /*sums*/, float* /*partials*/, Stream /*stream*/) {
  throw DeviceError("this build has no CUDA backend: there are no column sums on a GPU");
}

}  // namespace shoal::kernels
