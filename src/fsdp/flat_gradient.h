// The gradients of one flat parameter on their way from autograd to the optimizer: collected into a whole gradient of
// all its parameters, summed over the shard group, and the shards of several run()s added up.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/device_mesh.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/gradient_exchange.h"
#include "fsdp/gradient_sum.h"
#include "fsdp/host_memory.h"
#include "fsdp/mixed_precision.h"
#include "fsdp/offload_copies.h"
#include "fsdp/replica_sum.h"
#include "fsdp/shard_squares.h"
#include "shard/shard_layout.h"

namespace shoal::fsdp {

struct GradientPools {
  BufferPool& sent;                 // for whole gradients, on the device
  BufferPool& received;             // for what ranks get of them
  BufferPool& device;               // for shards, and for whole gradients that wait for later run()s
  BufferPool& masters;              // where the masters are: `device` itself, or another pool on the host
  OffloadCopies* copies = nullptr;  // of that other pool; null where there is none
};

class FlatGradient {
 public:
  struct Options {
    bool deterministic = false;  // zeros get a plus sign, replicas are summed in each run(), all sums in fixed trees
    bool scatters = true;        // false: the shard group is one rank, and the whole gradient is the shard
  };
  // All outlive this.
  FlatGradient(const ShardLayout& layout, const FlatDtypes& dtypes, comm::DeviceMesh& mesh, const GradientPools& pools,
               Options options);

  // The run() that begins does not reduce: until the next reduction gradients are added up whole, in dtypes.reduced.
  // The same on all ranks, whatever gradients come on each.
  void keep_whole() { keeps_whole_ = true; }
  bool keeps_whole() const { return keeps_whole_; }
  // A backward pass begins: one gradient of each tensor of the layout is to come.
  void expect();
  std::size_t missing() const { return missing_; }
  // Where the gradient of the tensor at `begin` of the flat parameter (both in bytes) may be left at once; null where
  // it is to be added up, comes in another type, or was asked for before: autograd adds up two gradients of one pass.
  void* place_for(std::int64_t begin, std::int64_t bytes);
  // `gradient` of tensor `index`. Added to what earlier passes left unreduced. Nothing is copied where it is in its
  // place already.
  void collect(std::size_t index, const at::Tensor& gradient);

  // Where in the memory reserved in pools.sent the whole gradient is; -1 for other memory, and without one.
  std::int64_t place() const;
  // Moves the whole gradient, if need be makes one, where no rank has memory reserved in pools.sent.
  void leave_place();

  // Collective over the shard group. What was collected since the last reduction; tensors without a gradient count as
  // zero. finish_reduce() must follow, which with `sum_replicas` begins a collective of the replicate group as well;
  // finish_replica_sum(), or anything that asks for the gradient, waits for that.
  void start_reduce();
  void finish_reduce(bool sum_replicas);
  void finish_replica_sum();

  // Collective over the replicate group where run() left the sum to this. value() waits for it.
  void start_replica_sum();
  // Summed over all run()s and ranks, on the masters' device and in their type; undefined where there is none yet.
  // Collective over the replicate group where neither run() nor start_replica_sum() saw to it. OptionError where
  // gradients were collected but not reduced.
  const at::Tensor& value();
  // Of value(), where it was summed up on the device before it went to the host. After value().
  std::optional<double> sum_of_squares() { return squares_.value(); }
  void drop();  // everything

  // Bytes of the whole gradient where run()s keep it.
  std::int64_t whole_bytes() const;
  const FlatDtypes& dtypes() const { return dtypes_; }

 private:
  bool offloaded() const { return &pools_.masters != &pools_.device; }
  bool is_a_sum() const { return keeps_whole_ || !exchange_; }
  BufferPool& whole_pool();
  void make_whole(bool plain);
  at::Tensor reduced_shard();
  void begin_replica_sum_of(at::Tensor shard);
  void keep(at::Tensor shard);
  void settle();

  const ShardLayout* layout_;
  FlatDtypes dtypes_;
  int replicas_;
  GradientPools pools_;
  Options options_;

  std::vector<char> arrived_;  // in this backward pass
  std::vector<char> held_;     // in whole_
  std::vector<char> asked_;    // place_for() gave its place away in this backward pass
  std::size_t missing_ = 0;
  bool keeps_whole_ = false;
  bool plain_ = false;  // whole_ is of pools_.device
  at::Tensor whole_;
  std::optional<GradientExchange> exchange_;  // where the shard group has more than one rank

  ReplicaSum replica_sum_;
  at::Tensor summing_;   // a shard whose sum over the replicas is under way, not yet in sum_
  at::Tensor arriving_;  // a shard on its way to the host
  DeviceMark arrival_;
  GradientSum sum_;
  ShardSquares squares_;         // of sum_, where that is one shard, now on the host
  bool replicas_summed_ = true;  // sum_ and summing_ hold, or get, the sum over the replicate group
};

}  // namespace shoal::fsdp
