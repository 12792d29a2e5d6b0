// The memory that a module's units use by turns: pools, and what is put into them before the first step.
//
// Whole parameters and the shards they are gathered from lie in memory of the shard group, gradients that are sent and
// what is received of them in memory of the reducing group (ProcessGroup::allocate()): as much as the units that the
// schedule has in use at a time need, with a place for each of them (buffer_plan.h), and for the root, which is whole
// all the time, its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/device_mesh.h"
#include "fsdp/buffer_plan.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/offload_copies.h"

namespace shoal::fsdp {

class Unit;

class UnitBuffers {
 public:
  explicit UnitBuffers(at::Device device);

  BufferPool& parameters(const Unit& unit);  // whole ones
  BufferPool& gradients(const Unit& unit);   // whole ones that are sent
  BufferPool& received(const Unit& unit);    // what comes of the other ranks' gradients
  // For shards of gradients, among others. On a GPU what is released goes back to LibTorch's allocator: forward passes
  // have their activations in the memory that the gradients' shards fill one by one as backward frees it again.
  BufferPool& device() { return device_pool_; }
  BufferPool& host() { return host_pool_; }  // pinned where the device is a GPU
  OffloadCopies& copies() { return copies_; }

  // Collective over mesh.shard() and mesh.reduce(), with the same units on all ranks, whose buffers `plans` are. Fills
  // the pools, and places the shards that parameters are gathered from.
  void reserve(const std::vector<std::unique_ptr<Unit>>& units, const BufferPlans& plans, comm::DeviceMesh& mesh);

  std::int64_t bytes() const;
  // Buffers of whole parameters and sent gradients that were made later than reserve(), for operators that need more
  // units at once than the schedule has.
  int unplanned() const;

 private:
  at::Device device_;
  // Gradients come when autograd has them, in an order that ranks do not compare, but are received in one that they do:
  // each kind in a pool of its own.
  struct Pools {
    explicit Pools(at::Device device) : parameters(device), gradients(device), received(device) {}
    BufferPool parameters, gradients, received;
  };
  Pools& pools_of(const Unit& unit);

  Pools units_, root_;
  BufferPool device_pool_, host_pool_;
  OffloadCopies copies_;
  std::int64_t shard_bytes_ = 0;
};

}  // namespace shoal::fsdp
