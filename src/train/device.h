// Where a rank computes.
#pragma once

#include <string>

namespace shoal::train {

// "cpu" for --device auto and cpu. DeviceError for cuda, as long as training on GPUs is not part of the program.
std::string resolve_device(const std::string& device);

}  // namespace shoal::train
