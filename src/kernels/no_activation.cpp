#include "core/error.h"
#include "kernels/activation.h"

namespace shoal::kernels {
namespace {

[[noreturn]] void refuse() { throw DeviceError("this build has no CUDA backend: SwiGLU on a GPU is not there"); }

}  // namespace

void swiglu(const GateShape& /*shape*/, const void* /*gate*/, const void* /*up*/, void* /*out*/, Stream /*stream*/) {
  refuse();
}

void swiglu_backward(const GateShape& /*shape*/, const GateGradients& /*args*/, Stream /*stream*/) { refuse(); }

}  // namespace shoal::kernels
