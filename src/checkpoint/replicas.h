// Ranks that hold the same elements of all tensors: replicas of hybrid strategies, or all ranks where nothing is cut.
// Each reads a part of what they hold and passes it on to the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/placed_elements.h"
#include "comm/process_group.h"

namespace shoal::checkpoint {

class Replicas {
 public:
  // Collective over `world`. `tensors` as of PlacedElements.
  Replicas(comm::ProcessGroup& world, const std::vector<ShardedTensor*>& tensors);

  std::size_t size() const { return ranks_.size(); }
  std::size_t index() const { return index_; }  // this rank among them

  // Cuts a row of things of these sizes into size() runs of about as many bytes: run i is [result[i], result[i + 1]).
  std::vector<std::size_t> divide(const std::vector<std::int64_t>& bytes) const;

  // Collective over the replicas. `filled[i]`: the memory of this rank that is filled on replica i, and then here too.
  // Time-outs name ranks of the job. Takes a few tens of MiB.
  void pass_on(const std::vector<std::vector<std::span<std::byte>>>& filled);

  // Collective over the replicas: whether all have placed the same bytes.
  bool agree(const PlacedElements& placed);

 private:
  comm::ProcessGroup& world_;
  std::vector<int> ranks_;  // of the job
  std::size_t index_ = 0;
  std::unique_ptr<comm::ProcessGroup> group_;  // null: this rank alone
};

}  // namespace shoal::checkpoint
