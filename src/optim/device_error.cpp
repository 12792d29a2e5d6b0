#include "optim/device_error.h"

#include "core/error.h"

namespace shoal::optim {

void throw_device_error(const char* call, const char* reason) {
  throw DeviceError("CUDA: {} failed: {}", call, reason);
}

}  // namespace shoal::optim
