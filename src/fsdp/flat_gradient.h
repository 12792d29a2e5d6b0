// The gradients of one flat parameter on their way from autograd to the optimizer: collected into a whole gradient of
// all its parameters, reduce-scattered, and the shards of several run()s added up.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/device_mesh.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/gradient_sum.h"
#include "fsdp/host_memory.h"
#include "fsdp/mixed_precision.h"
#include "shard/shard_layout.h"

namespace shoal::fsdp {

class FlatGradient {
 public:
  struct Options {
    bool deterministic = false;  // zeros get a plus sign, replicas are summed in each run(), run()s in a binary tree
    bool scatters = true;        // false: the shard group is one rank, and the whole gradient is the shard
  };
  // All outlive this. `whole_pool` has buffers on the device, `shard_pool` where the masters are.
  FlatGradient(const ShardLayout& layout, const FlatDtypes& dtypes, comm::DeviceMesh& mesh, BufferPool& whole_pool,
               BufferPool& shard_pool, Options options);

  // A backward pass begins: one gradient of each tensor of the layout is to come.
  void expect();
  std::size_t missing() const { return missing_; }
  // `gradient` of tensor `index`. Added to what earlier passes left unreduced.
  void collect(std::size_t index, const at::Tensor& gradient);

  // Collective over the shard group. What was collected since the last reduction; tensors without a gradient count as
  // zero. finish_reduce() must follow, which with `sum_replicas` is collective over the replicate group as well.
  void start_reduce();
  void finish_reduce(bool sum_replicas);

  // Summed over all run()s and ranks, on the masters' device and in their type; undefined where there is none yet.
  // Collective over the replicate group where run() left that sum to this. OptionError where gradients were collected
  // but not reduced.
  const at::Tensor& value();
  void drop();  // everything

  // Bytes of the whole gradient, while there is one.
  std::int64_t whole_bytes() const;
  at::ScalarType reduced_dtype() const { return dtypes_.reduced; }

 private:
  void make_whole();
  void all_reduce(const at::Tensor& shard);
  void accumulate(at::Tensor shard, bool sum_replicas);
  void keep(at::Tensor shard);
  void settle();
  void sum_over_replicas();

  const ShardLayout* layout_;
  FlatDtypes dtypes_;
  comm::DeviceMesh* mesh_;
  BufferPool* whole_pool_;
  BufferPool* shard_pool_;
  Options options_;

  std::vector<char> arrived_;  // in this backward pass
  std::vector<char> held_;     // in whole_
  std::size_t missing_ = 0;
  at::Tensor whole_, incoming_;  // incoming_: this rank's shard of the reduction on its way
  std::unique_ptr<comm::Work> reducing_;

  at::Tensor arriving_;  // a shard on its way to the host
  DeviceMark arrival_;
  GradientSum sum_;
  bool replicas_summed_ = true;  // sum_ holds the sum over the replicate group
};

}  // namespace shoal::fsdp
