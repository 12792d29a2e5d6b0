// Memory of a GPU that a communicator knows: what it takes to move data without copies and without multiprocessors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "comm/nccl_communicator.h"

namespace shoal::comm {

// Collective over the communicator, with the same `bytes`. Memory of the current device, as a symmetric window of the
// communicator; null on all ranks where NCCL cannot do that on one of them. `all_true` tells whether its argument is
// true on all ranks. The memory keeps the communicator.
std::shared_ptr<void> allocate_window(const std::shared_ptr<NcclCommunicator>& comm, std::int64_t bytes,
                                      const Patience& patience, const std::function<bool(bool)>& all_true);
// Not collective. Memory of the current device; DeviceError where there is not enough.
std::shared_ptr<void> allocate_plain(std::int64_t bytes);

}  // namespace shoal::comm
