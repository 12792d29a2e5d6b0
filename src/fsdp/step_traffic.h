// What a rank sends through its groups in a step, by the order in which the engine uses its units.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fsdp/accumulation.h"
#include "fsdp/unit_sizes.h"

namespace shoal::fsdp {

// Bytes that one rank sends in a step (and receives: all of these are symmetric): N - 1 parts of N for a gather or a
// reduction among N ranks, twice that for an all-reduce.
struct StepTraffic {
  std::int64_t gathered = 0;    // parameters, in forward and again in backward
  std::int64_t reduced = 0;     // gradients within the shard group
  std::int64_t replicated = 0;  // gradients between replicas
  std::int64_t total() const { return gathered + reduced + replicated; }
};

// Of `micro_steps` that add up as `accumulation` says. Assumes that each unit is used once forward and, but for those
// named in `idle_in_backward`, once backward, and that the last two of forward stay for backward where there may be
// two.
StepTraffic step_traffic(const std::vector<UnitSizes>& units, const MeshShape& mesh, const FullyShardOptions& options,
                         std::int64_t micro_steps, Accumulation accumulation,
                         const std::vector<std::string>& idle_in_backward = {});

}  // namespace shoal::fsdp
