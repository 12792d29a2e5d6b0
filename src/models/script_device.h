// A trace writes the device that it ran on into its graph.
#pragma once

#include <c10/core/Device.h>

namespace torch::jit {
struct Module;
}

namespace shoal::models {

// Makes `device` the device of all that `script` creates and holds: its constants of type Device, its constant tensors
// and its buffers (not its parameters). Before its methods have been called.
void set_script_device(torch::jit::Module& script, c10::Device device);

}  // namespace shoal::models
