#include "fsdp/offload_in_flight.h"

#include <algorithm>

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

std::int64_t bytes_on_device(const UnitSizes& unit) {
  std::int64_t bytes = 0;
  for (const FlatSizes& flat : unit.flats)
    if (flat.trained && flat.master_on_host()) bytes += flat.reduced;
  return bytes;
}

}  // namespace

OffloadInFlight offload_in_flight(const std::vector<UnitSizes>& units, const MeshShape& mesh,
                                  const FullyShardOptions& options) {
  OffloadInFlight in_flight;
  std::int64_t largest = 0, root = 0;
  std::size_t others = 0;
  bool adds_up_here = false;
  for (const UnitSizes& unit : units) {
    const std::int64_t bytes = bytes_on_device(unit);
    if (bytes > 0 && !unit.is_root()) ++others;
    (unit.is_root() ? root : largest) = std::max(unit.is_root() ? root : largest, bytes);
    for (const FlatSizes& flat : unit.flats) {
      adds_up_here = adds_up_here || flat.received > 0;
      // In another type than the masters' a result is made beside them, and a gradient arrives beside the sum.
      if (flat.offload == Offload::optimizer && flat.compute != flat.master) in_flight.host += flat.compute;
      if (flat.trained && flat.master_on_host() && flat.reduced < flat.master) in_flight.host += flat.reduced;
    }
  }
  const bool exchanges = mesh.shard > 1;
  const std::size_t most = std::min(units_on_device(exchanges, adds_up_here, mesh, options), others);
  in_flight.device = static_cast<std::int64_t>(most) * largest;
  // What is not sharded is collected over the whole backward pass; a shard of the root comes last.
  if (!exchanges || root > largest) in_flight.device += root;
  return in_flight;
}

}  // namespace shoal::fsdp
