#include "core/error.h"
#include "kernels/column_sums.h"

namespace shoal::kernels {
namespace {

[[noreturn]] void refuse() { throw DeviceError("this build has no CUDA backend: there are no column sums on a GPU"); }

}  // namespace

std::int64_t column_sum_partials(std::int64_t /*rows*/, std::int64_t /*columns*/) { return 0; }

std::int64_t column_sum_slices(std::int64_t /*rows*/, std::int64_t /*columns*/) { return 0; }

void column_sums(const ColumnSums& /*matrix*/, void* /*sums*/, float* /*partials*/, Stream /*stream*/) { refuse(); }

void add_partials(const float* /*partials*/, std::int64_t /*slices*/, std::int64_t /*columns*/, DType /*dtype*/,
                  void* /*sums*/, Stream /*stream*/) {
  refuse();
}

}  // namespace shoal::kernels
