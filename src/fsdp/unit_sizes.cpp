#include "fsdp/unit_sizes.h"

#include <algorithm>
#include <limits>

#include "comm/device_mesh.h"

namespace shoal::fsdp {
namespace {

// Shards start on the boundary of a cache line, for vector loads of the optimizer and 16-byte messages of NCCL.
constexpr std::int64_t kShardAlignment = 16;

std::int64_t bytes_of(std::int64_t elements, at::ScalarType type) {
  return elements * static_cast<std::int64_t>(c10::elementSize(type));
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
  if (trained && (mesh.shard > 1 || sizes.master_on_host()))
    sizes.kept = bytes_of(layout.padded_numel(), dtypes.reduced);
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

}  // namespace shoal::fsdp
