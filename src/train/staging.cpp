#include "train/staging.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/available_memory.h"
#include "core/file_io.h"
#include "core/host_name.h"

namespace shoal::train {

std::int64_t stage_bytes(comm::ProcessGroup& world, const CheckpointOptions& options) {
  constexpr double kGib = 1 << 30;
  constexpr std::int64_t kUnknown = std::int64_t{1} << 30, kShare = 4;
  const std::string host = host_name();
  const std::vector<std::string> hosts = comm::all_gather_bytes(world, host);
  if (options.stage_gib > 0) return static_cast<std::int64_t>(options.stage_gib * kGib);
  return available_memory().value_or(kUnknown) / kShare / std::count(hosts.begin(), hosts.end(), host);
}

checkpoint::StagingPool::Allocate stage_allocator(c10::Device device) {
  if (device.is_cpu()) return {};
  return [] {
    const auto piece =
        std::make_shared<at::Tensor>(at::empty({kChunkBytes}, at::TensorOptions(at::kByte).pinned_memory(true)));
    return std::shared_ptr<std::byte>(piece, static_cast<std::byte*>(piece->data_ptr()));
  };
}

}  // namespace shoal::train
