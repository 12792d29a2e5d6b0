// The ranks of a job as a grid replicate × shard, the vocabulary of FSDP2's DeviceMesh.
//
// Parameters are cut among the ranks of a shard group; replicate groups join the ranks that hold the same shard.
// FULL_SHARD is 1 × N, NO_SHARD is N × 1, HYBRID_SHARD is N/S × S. Ranks of a shard group are consecutive:
// global rank = replicate_rank * shard_size + shard_rank. A shard group may be divided further: after forward each of
// its parts can keep whole parameters among its own ranks, say those of a node, to gather them from there in backward.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/process_group.h"

namespace shoal::comm {

class DeviceMesh {
 public:
  // Collective over `world`, the group of all ranks on host memory; it stays the caller's and must outlive the mesh.
  // `device_world`: the same ranks for data of the training device; may be `world` itself.
  // shard_size must divide the number of ranks, and regather_size, where it is not 0, be a true divisor of shard_size
  // greater than 1, else OptionError.
  DeviceMesh(ProcessGroup& world, ProcessGroup& device_world, int shard_size, int regather_size = 0);

  ProcessGroup& world() const { return *world_; }          // control messages, host memory
  ProcessGroup& shard() const { return *shard_; }          // all-gather of parameters, reductions of scalars
  ProcessGroup& reduce() const { return *reduce_; }        // reduce-scatter of gradients: the same ranks as shard()
  ProcessGroup& replicate() const { return *replicate_; }  // all-reduce of gradient shards

  // regather_size() consecutive ranks of the shard group, this one among them; null where it is not divided.
  ProcessGroup* regather() const { return regather_.get(); }
  // All that are for data of the training device.
  std::vector<ProcessGroup*> device_groups() const;

  // A line for people on each of these: "shard: nccl 2.28.9, 2 ranks, windows, copy engines".
  std::vector<std::string> describe() const;

  int shard_size() const { return shard_->size(); }
  int replicate_size() const { return replicate_->size(); }
  int regather_size() const { return regather_ ? regather_->size() : 0; }

 private:
  ProcessGroup* world_;
  std::unique_ptr<ProcessGroup> shard_, reduce_, replicate_, regather_;
};

}  // namespace shoal::comm
