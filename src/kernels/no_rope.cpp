#include "core/error.h"
#include "kernels/rope.h"

namespace shoal::kernels {

void rotate(const Rotation& /*args*/, Stream /*stream*/) {
  throw DeviceError("this build has no CUDA backend: rotary positions on a GPU are not there");
}

}  // namespace shoal::kernels
