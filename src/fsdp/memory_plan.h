// What a rank needs of its device's memory whatever the batch, and what to do when that, or the rest, does not fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fsdp/accumulation.h"
#include "fsdp/fully_shard.h"
#include "fsdp/gradients_in_flight.h"
#include "fsdp/unit_sizes.h"

namespace shoal::fsdp {

// Bytes. What the options keep on the host is in `host` and in none of the parts. Not all of it is there at a time on a
// GPU: gradients come as activations go (see UnitBuffers::device() and ActivationPlan::on_top()).
struct MemoryPlan {
  std::int64_t masters = 0;           // this rank's shard of the parameters, fp32 at least
  std::int64_t gradients = 0;         // its gradient
  std::int64_t optimizer_states = 0;  // and what the optimizer keeps for it
  std::int64_t compute_shards = 0;    // the shard as it is gathered, where that is another tensor than the master
  std::int64_t unit_buffers = 0;      // whole parameters and gradients of the units in use at a time
  std::int64_t kept_gradients = 0;    // whole ones between micro-steps, beyond the shards that come as they go
  std::int64_t copies = 0;            // gradients on their way to the host or into the sum, the most at a time
  GradientsInFlight in_flight = {};   // when there are how many
  std::int64_t host = 0;              // with results on their way back
  std::int64_t device_total = 0;

  // What decides which option would help.
  int shard_size = 1, world_size = 1;
  Accumulation accumulation = Accumulation::none;
  Offload offload = Offload::none;
  bool recomputes_all = false;  // --activation-checkpoint full
  bool activation_offload = false;

  // Without activations: those are ActivationPlan's, and come on top.
  std::int64_t fixed() const { return masters + optimizer_states + compute_shards + unit_buffers + of_gradients(); }
  std::int64_t of_gradients() const { return gradients + kept_gradients + copies; }
  std::int64_t left_for_activations() const { return device_total - fixed(); }  // negative: the rest does not fit
};

// `optimizer_states`: arrays of the parameters' size, 2 for Adam. `device_total`: bytes of the device.
MemoryPlan plan_of(const std::vector<UnitSizes>& units, const MeshShape& mesh, const FullyShardOptions& options,
                   int optimizer_states, std::int64_t device_total, Accumulation accumulation = Accumulation::none);
MemoryPlan plan_of(FullyShardedModule& module, int optimizer_states, std::int64_t device_total,
                   Accumulation accumulation = Accumulation::none);

// "masters 5.8, gradients 5.8, …, left for activations 98.1 of 139.8 GiB".
std::string text_of(const MemoryPlan& plan);

// The message of an error: what the plan was, which part did not fit, and which options would make it fit. `cause`:
// what the failed allocation said; its first line is taken.
std::string explain_out_of_memory(const MemoryPlan& plan, const std::string& cause);

}  // namespace shoal::fsdp
