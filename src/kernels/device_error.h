// nvcc cannot read fmt's headers as C++20, so .cu files throw through here.
#pragma once

namespace shoal::kernels {

// Throws DeviceError "CUDA: <call> failed: <reason>".
[[noreturn]] void throw_device_error(const char* call, const char* reason);

}  // namespace shoal::kernels
