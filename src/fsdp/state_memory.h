// How the regions of a StateDict are read and filled.
#pragma once

namespace shoal::fsdp {

enum class StateMemory {
  host,      // regions of a device's tensors are copies in host memory, written back by StateDict::loaded()
  in_place,  // they are read by Region::fetch where they are; for saving
};

}  // namespace shoal::fsdp
