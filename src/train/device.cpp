#include "train/device.h"

#include <ATen/Context.h>

#include "core/check.h"

namespace shoal::train {

std::string resolve_device(const std::string& device) {
  if (device != "cuda") return "cpu";
  SHOAL_CHECK(at::globalContext().hasCUDA(), DeviceError,
              "--device cuda: there is no GPU that this program can use (no GPU, no driver, or a build without CUDA); "
              "use --device cpu or auto");
  throw DeviceError("--device cuda: this version trains on CPU ranks alone; use --device cpu or auto");
}

}  // namespace shoal::train
