#include "fsdp/offload_in_flight.h"

#include <algorithm>

#include "fsdp/buffer_plan.h"
#include "fsdp/offload_copies.h"

namespace shoal::fsdp {
namespace {

// Units whose gradients are on the device at a time, as a shard or, without sharding, whole.
std::size_t units_on_device(bool exchanges, bool adds_up_here, const MeshShape& mesh,
                            const FullyShardOptions& options) {
  std::size_t units = 1;  // the one that is being summed up, or collected
  if (!exchanges) units = 1 + kReductionsInFlight;
  if (exchanges && !adds_up_here) units = kReductionsInFlight;  // the collective gives shards
  if (mesh.replicate > 1) ++units;                              // whose sum over the replicas is not waited for yet
  if (!options.offload_on_cpu) units += kCopiesInFlight;
  return units;
}

// The shard of its gradient as it is summed: of the masters' type, or of half its size. 0 where it is not offloaded.
std::int64_t summed_bytes(const FlatSizes& flat, const FullyShardOptions& options) {
  if (!flat.trained || !flat.master_on_host()) return 0;
  const auto type = options.mixed_precision.reduce_dtype;
  return type && c10::elementSize(*type) < sizeof(float) ? flat.master / 2 : flat.master;
}

}  // namespace

OffloadInFlight offload_in_flight(const std::vector<UnitSizes>& units, const MeshShape& mesh,
                                  const FullyShardOptions& options) {
  OffloadInFlight in_flight;
  std::int64_t largest = 0, root = 0;
  std::size_t others = 0;
  bool adds_up_here = false;
  for (const UnitSizes& unit : units) {
    std::int64_t bytes = 0;
    for (const FlatSizes& flat : unit.flats) {
      const std::int64_t summed = summed_bytes(flat, options);
      bytes += summed;
      adds_up_here = adds_up_here || flat.received > 0;
      // In another type than the masters' a result is made beside them, and a gradient arrives beside the sum.
      if (flat.offload == Offload::optimizer && flat.compute != flat.master) in_flight.host += flat.compute;
      if (summed < flat.master) in_flight.host += summed;
    }
    if (bytes > 0 && !unit.is_root()) ++others;
    (unit.is_root() ? root : largest) = std::max(unit.is_root() ? root : largest, bytes);
  }
  const bool exchanges = mesh.shard > 1;
  const std::size_t most = std::min(units_on_device(exchanges, adds_up_here, mesh, options), others);
  in_flight.device = static_cast<std::int64_t>(most) * largest;
  // What is not sharded is collected over the whole backward pass; a shard of the root comes last.
  if (!exchanges || root > largest) in_flight.device += root;
  return in_flight;
}

}  // namespace shoal::fsdp
