// What --offload needs beside the masters, gradients and states that it keeps on the host: gradients on their way
// there, and results on their way back.
#pragma once

#include <cstdint>
#include <vector>

#include "fsdp/unit_sizes.h"

namespace shoal::fsdp {

// Bytes; they are got once and stay.
struct OffloadInFlight {
  std::int64_t device = 0, host = 0;
};

// Zero where nothing of `units` is offloaded.
OffloadInFlight offload_in_flight(const std::vector<UnitSizes>& units, const MeshShape& mesh,
                                  const FullyShardOptions& options);

}  // namespace shoal::fsdp
