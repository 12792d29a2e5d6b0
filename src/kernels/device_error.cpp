#include "kernels/device_error.h"

#include "core/error.h"

namespace shoal::kernels {

void throw_device_error(const char* call, const char* reason) {
  throw DeviceError("CUDA: {} failed: {}", call, reason);
}

}  // namespace shoal::kernels
