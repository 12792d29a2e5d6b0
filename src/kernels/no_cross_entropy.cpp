#include "core/error.h"
#include "kernels/cross_entropy.h"

namespace shoal::kernels {
namespace {

[[noreturn]] void refuse() { throw DeviceError("this build has no CUDA backend: it has no cross-entropy for a GPU"); }

}  // namespace

void cross_entropy(const LogitRows& /*rows*/, float* /*losses*/, Stream /*stream*/) { refuse(); }

void cross_entropy_with_gradient(const LogitRows& /*rows*/, float /*gradient_scale*/, float* /*losses*/,
                                 Stream /*stream*/) {
  refuse();
}

void scale(const void* /*in*/, DType /*in_type*/, const float* /*factor*/, void* /*out*/, DType /*out_type*/,
           std::int64_t /*count*/, Stream /*stream*/) {
  refuse();
}

}  // namespace shoal::kernels
