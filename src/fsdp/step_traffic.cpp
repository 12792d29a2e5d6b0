#include "fsdp/step_traffic.h"

#include <algorithm>

namespace shoal::fsdp {
namespace {

std::int64_t others_part(std::int64_t bytes, int ranks) { return ranks > 0 ? bytes / ranks * (ranks - 1) : 0; }

// Of a unit, once.
std::int64_t gather(const UnitSizes& unit, int ranks) {
  std::int64_t bytes = 0;
  for (const FlatSizes& flat : unit.flats) bytes += others_part(flat.whole, ranks);
  return bytes;
}

}  // namespace

StepTraffic step_traffic(const std::vector<UnitSizes>& units, const MeshShape& mesh, const FullyShardOptions& options,
                         std::int64_t micro_steps, Accumulation accumulation,
                         const std::vector<std::string>& idle_in_backward) {
  StepTraffic traffic;
  for (const UnitSizes& unit : units) {
    traffic.gathered += micro_steps * gather(unit, mesh.shard);
    // Of the last units of forward the first of backward and the next stay.
    const auto from_the_end = static_cast<std::size_t>(&units.back() - &unit);
    const bool stays = unit.is_root() || from_the_end < std::min<std::size_t>(2, most_whole(options)) ||
                       !options.reshard_after_forward;
    const bool idle = std::find(idle_in_backward.begin(), idle_in_backward.end(), unit.fqn) != idle_in_backward.end();
    if (!stays && !idle) traffic.gathered += micro_steps * gather(unit, mesh.regather > 0 ? mesh.regather : mesh.shard);
    for (const FlatSizes& flat : unit.flats) {
      const bool keeps = accumulation == Accumulation::keep;  // which are sums, sent as such
      traffic.reduced += keeps ? others_part(flat.kept, mesh.shard) : micro_steps * others_part(flat.sent, mesh.shard);
      // A shard that goes to the host is the replicas' sum already.
      const bool each = accumulation == Accumulation::reduce || (flat.master_on_host() && !keeps);
      if (flat.trained) traffic.replicated += (each ? micro_steps : 1) * 2 * others_part(flat.master, mesh.replicate);
    }
  }
  return traffic;
}

}  // namespace shoal::fsdp
