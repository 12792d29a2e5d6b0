#include "core/error.h"
#include "kernels/gelu.h"

namespace shoal::kernels {
namespace {

[[noreturn]] void refuse() { throw DeviceError("this build has no CUDA backend: there is no gelu on a GPU"); }

}  // namespace

void gelu(const void* /*x*/, void* /*y*/, std::int64_t /*count*/, DType /*dtype*/, Stream /*stream*/) { refuse(); }

void gelu_backward(const GeluBackward& /*args*/, Stream /*stream*/) { refuse(); }

}  // namespace shoal::kernels
