// One file with the traces of all ranks.
#pragma once

#include <string>
#include <vector>

#include "core/trace_summary.h"

namespace shoal::fsdp {

class FullyShardedModule;

// Collective over the mesh of `module`, whose options have a Trace. Rank 0 writes what that holds on each of the first
// 64 ranks into `path`, their clocks laid over each other at a barrier. Ends the tracing of collectives, and waits for
// what is recorded. Returns this rank's times; IoError on all ranks where the file cannot be written.
std::vector<StepTimes> write_trace(FullyShardedModule& module, const std::string& path);

}  // namespace shoal::fsdp
