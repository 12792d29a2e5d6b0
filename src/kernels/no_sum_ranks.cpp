#include "core/error.h"
#include "kernels/sum_ranks.h"

namespace shoal::kernels {

void sum_ranks_on_device(const RankRows& /*rows*/, const RankSum& /*to*/, void* /*stream*/) {
  throw DeviceError("this build has no CUDA backend: sums over ranks are taken on host memory alone");
}

}  // namespace shoal::kernels
