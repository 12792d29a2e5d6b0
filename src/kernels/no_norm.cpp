#include "core/error.h"
#include "kernels/norm.h"

namespace shoal::kernels {
namespace {

[[noreturn]] void refuse() { throw DeviceError("this build has no CUDA backend: norms on a GPU are not there"); }

}  // namespace

void norm_forward(const NormShape& /*shape*/, const NormForward& /*args*/, Stream /*stream*/) { refuse(); }

std::int64_t norm_partials(const NormShape& /*shape*/) { refuse(); }

void norm_backward(const NormShape& /*shape*/, const NormBackward& /*args*/, Stream /*stream*/) { refuse(); }

}  // namespace shoal::kernels
