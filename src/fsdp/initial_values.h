// Where the values come from that a module's parameters start with.
#pragma once

#include <ATen/core/Tensor.h>

#include "comm/device_mesh.h"
#include "fsdp/fully_shard.h"
#include "shard/shard_layout.h"

namespace shoal::fsdp {

// A parameter's values are those that the module has, or for deferred ones those that its construction would have
// given; zeros where the options skip them. With sync_module_states rank 0's count, which are sent, parameter by
// parameter, unless all ranks recorded the same construction: then each rank makes those that it holds elements of, and
// nothing is sent. One parameter at a time is whole.
class InitialValues {
 public:
  // Collective over mesh.world() where options.deferred_init is given. What it is given must outlive it.
  InitialValues(comm::DeviceMesh& mesh, const FullyShardOptions& options, at::Device device);

  at::Device device() const { return device_; }  // where the module trains
  // Elements [mine.tensor_begin, + mine.count) of `parameter`'s values become elements [mine.shard_begin, …) of
  // `shard`. Collective over the mesh.
  void write(const at::Tensor& parameter, const TensorSlice& mine, const at::Tensor& shard) const;

 private:
  bool is_deferred(const at::Tensor& parameter) const;
  at::Tensor whole(const at::Tensor& parameter) const;

  comm::DeviceMesh* mesh_;
  const FullyShardOptions* options_;
  at::Device device_;
  bool each_makes_its_own_;  // of the deferred ones
};

}  // namespace shoal::fsdp
