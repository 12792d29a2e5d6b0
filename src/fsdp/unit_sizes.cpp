#include "fsdp/unit_sizes.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "comm/device_mesh.h"

namespace shoal::fsdp {
namespace {

// Shards start on the boundary of a cache line, for vector loads of the optimizer and 16-byte messages of NCCL.
constexpr std::int64_t kShardAlignment = 16;

std::int64_t bytes_of(std::int64_t elements, at::ScalarType type) {
  return elements * static_cast<std::int64_t>(c10::elementSize(type));
}

// Largest first.
std::vector<std::int64_t> sorted(const UnitSizes& unit, std::int64_t FlatSizes::*size) {
  std::vector<std::int64_t> all;
  for (const FlatSizes& flat : unit.flats) all.push_back(flat.*size);
  std::sort(all.rbegin(), all.rend());
  return all;
}

}  // namespace

MeshShape shape_of(const comm::DeviceMesh& mesh) {
  return {mesh.shard_size(), mesh.replicate_size(), mesh.regather_size()};
}

ShardLayout layout_of(const std::vector<std::int64_t>& numels, const MeshShape& mesh) {
  return ShardLayout(numels, mesh.shard, kShardAlignment);
}

FlatSizes flat_sizes(const ShardLayout& layout, const FlatDtypes& dtypes, bool trained, const MeshShape& mesh,
                     const FullyShardOptions& options, bool on_cpu) {
  FlatSizes sizes{.numel = layout.numel(), .trained = trained};
  if (!on_cpu || options.offload_on_cpu) sizes.offload = options.offload;
  sizes.permanent = mesh.shard == 1 && !sizes.compute_on_host();
  sizes.master = bytes_of(layout.shard_numel(), dtypes.masters);
  sizes.saved = bytes_of(layout.numel(), dtypes.masters);
  const bool uploaded = sizes.offload == Offload::optimizer, alike = dtypes.masters == dtypes.params;
  // Elsewhere what is gathered is the master itself, or is rounded into the whole buffer each time.
  if (uploaded || (!alike && (sizes.permanent || sizes.compute_on_host())))
    sizes.compute = bytes_of(layout.shard_numel(), dtypes.params);
  if (uploaded && !sizes.permanent) sizes.placed = sizes.compute;
  if (!sizes.permanent) sizes.whole = bytes_of(layout.padded_numel(), dtypes.params);
  if (mesh.regather > 0) sizes.regather = sizes.whole / mesh.regather;
  if (!trained || mesh.shard == 1) return sizes;
  sizes.sent = bytes_of(layout.padded_numel(), dtypes.sent());
  if (adds_up_here(dtypes, dtypes.sent(), options.deterministic)) sizes.received = sizes.sent;
  return sizes;
}

std::size_t most_whole(const FullyShardOptions& options) {
  if (!options.reshard_after_forward) return std::numeric_limits<std::size_t>::max();
  if (options.limit_all_gathers > 0) return static_cast<std::size_t>(options.limit_all_gathers);
  const int ahead_in_backward = options.backward_prefetch_post ? 0 : options.backward_prefetch;
  return 1 + static_cast<std::size_t>(std::max(options.forward_prefetch, ahead_in_backward));
}

// While reductions are on their way, the next unit's gradients are collected.
UnitsInUse units_in_use(const FullyShardOptions& options) {
  return {most_whole(options), kReductionsInFlight + 1, kReductionsInFlight};
}

std::int64_t BufferSizes::bytes() const {
  return std::accumulate(shared.begin(), shared.end(), std::accumulate(root.begin(), root.end(), std::int64_t{0}));
}

// What must be there so that any `in_use` of the units but the root have their buffers at a time: that often, the
// largest flat parameter of any unit, the second largest, and so on. Where that is all units, each has its own.
BufferSizes buffer_sizes(const std::vector<UnitSizes>& units, std::size_t in_use, std::int64_t FlatSizes::*size) {
  BufferSizes sizes;
  std::vector<std::int64_t> largest, all;
  std::size_t counted = 0;
  for (const UnitSizes& unit : units) {
    const std::vector<std::int64_t> mine = sorted(unit, size);
    if (unit.is_root()) sizes.root = mine;
    if (unit.is_root() || mine.empty() || mine[0] == 0) continue;
    ++counted;
    all.insert(all.end(), mine.begin(), mine.end());
    largest.resize(std::max(largest.size(), mine.size()), 0);
    for (std::size_t i = 0; i < mine.size(); ++i) largest[i] = std::max(largest[i], mine[i]);
  }
  if (in_use >= counted) {
    sizes.shared = std::move(all);
    return sizes;
  }
  for (const std::int64_t one : largest) sizes.shared.insert(sizes.shared.end(), in_use, one);
  return sizes;
}

}  // namespace shoal::fsdp
