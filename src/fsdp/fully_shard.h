// fully_shard(): Fully Sharded Data Parallel for any torch::nn::Module, its source untouched.
//
//   auto sharded = fsdp::fully_shard(model, mesh, *fsdp::parse_wrap_policy("class:Block"), {});
//   fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = "adamw"}));
//   sharded->run([&] { loss_sum(model->forward(x), y).backward(); });   // collective over the mesh
//   optimizer.step(lr, 1.0 / global_count);                             // collective over the mesh
//
// Each unit's parameters become views of one flat storage that has memory only while the unit is in use. Gradients
// are summed over all ranks, not averaged: call backward() on the *sum* of the samples' losses and divide by the
// global count in the optimizer's grad_scale, which is right for uneven batches too. docs/architecture.md tells how.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/device_mesh.h"
#include "fsdp/state_memory.h"
#include "fsdp/wrap_policy.h"
#include "shard/state_dict.h"

namespace shoal {
class Trace;
}

namespace shoal::fsdp {

class DeferredInit;
class ModuleState;
class Runtime;

enum class Strategy { full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2 };
Strategy parse_strategy(const std::string& text);  // also zero1, zero2, zero3; OptionError that names --strategy
const char* name_of(Strategy strategy);
// Ranks a shard group under this strategy; `requested` (0: a node's ranks) counts for the hybrid ones alone.
int shard_group_size(Strategy strategy, int world_size, int ranks_per_node, int requested);
bool reshards_after_forward(Strategy strategy);

// FSDP2's MixedPrecisionPolicy. Unset: as the module has it. Masters and optimizer states are fp32 (fp64 for fp64
// parameters) whatever is set here.
struct MixedPrecisionPolicy {
  std::optional<at::ScalarType> param_dtype;   // parameters as operators see them, and what is all-gathered
  std::optional<at::ScalarType> reduce_dtype;  // what gradients are summed in; unset: as param_dtype, at least fp32
  std::optional<at::ScalarType> buffer_dtype;  // floating buffers
};

enum class Offload { none, optimizer, params };  // params: masters, gradients' shards and optimizer states on the host

struct FullyShardOptions {
  bool reshard_after_forward = true;  // false: SHARD_GRAD_OP, HYBRID_SHARD_ZERO2
  int forward_prefetch = 1;           // units gathered ahead of their use, once the order is known; 0: none
  int backward_prefetch = 1;
  // BACKWARD_POST: in backward the next unit is gathered only once the gradients of the one before are sent off, which
  // saves a unit's memory. Takes no depth: one unit ahead.
  bool backward_prefetch_post = false;
  // Units but the root that may have their parameters whole, or on their way, at a time; 0: as many as prefetching asks
  // for. An operator that needs more gets them.
  int limit_all_gathers = 0;
  bool sync_module_states = true;  // start from the parameters and buffers of rank 0
  MixedPrecisionPolicy mixed_precision;
  Offload offload = Offload::none;
  bool offload_on_cpu = false;  // for tests: a CPU counts as a device beside the host
  // Gradients of micro-steps and replicas are summed in one fixed binary tree, whatever the number of ranks.
  bool deterministic = false;
  std::string activation_checkpoint = "none";  // none | every:K | full | selective; see recompute.h
  bool activation_offload = false;  // what operators save for backward waits in pinned host memory; see saved_offload.h
  // Every so many run()s of training replicas compare hashes of their parameters; 0: never.
  std::int64_t check_replicas_every = 0;
  bool check_replicas_at_start = true;
  Trace* trace = nullptr;  // hears of units and collectives; null: nobody. The caller's
  // Where it trains, and where parameters and buffers go; unset: where the module's parameters are.
  std::optional<at::Device> device;
  const DeferredInit* deferred_init = nullptr;  // what recorded the module's construction; null: it was built whole
  // Parameters start as zeros, whatever the module has: for who fills all of them next, from a file.
  bool skip_init = false;
};

class FullyShardedModule {
 public:
  ~FullyShardedModule();
  FullyShardedModule(const FullyShardedModule&) = delete;
  FullyShardedModule& operator=(const FullyShardedModule&) = delete;

  // Collective over the mesh. Runs `body`, inside which the module may be called forward and backward() may be called
  // on what it gave; parameters are there when an operator needs them. May be called several times before the
  // optimizer's step: gradients add up. An exception from `body` leaves the module sharded, without gradients, and
  // usable. The order in which ranks use units must be the same on all ranks, else CommunicationError.
  void run(const std::function<void()>& body);

  // FSDP2's set_requires_gradient_sync: without it the next run()s keep whole gradients in the unsharded dtype and send
  // nothing; the first run() with it reduces them all. The same on all ranks. On at first.
  void set_requires_gradient_sync(bool sync);
  // FSDP2's set_requires_all_reduce, for hybrid strategies: whether run() sums gradients over replicas too, or leaves
  // that to grad_norm() or the optimizer's step. Off at first.
  void set_requires_all_reduce(bool all_reduce);
  // Bytes of whole gradients that a run() without gradient sync keeps on this rank.
  std::int64_t unsynced_gradient_bytes() const;

  // Collective over the mesh. Runs `body`, which must not call backward(), and tells where an operator first gave a
  // value that is not finite: "unit 'h.3', operator aten::div"; empty where none did on this rank.
  std::string find_nonfinite(const std::function<void()>& body);

  // Collective over the mesh. The 2-norm of the gradient as if it were unsharded, times `grad_scale`: the same number
  // at any rank count, up to rounding. Call between run() and the optimizer's step.
  double grad_norm(double grad_scale);
  void zero_grad();

  // Collective over the mesh. Parameters are whole and readable inside `body`. With `write_back`, each rank keeps its
  // own shard of what `body` wrote: it must write the same values on all ranks.
  void summon_full_params(const std::function<void()>& body, bool write_back = false);

  // Floating buffers become their mean over all ranks, others rank 0's. Collective over the mesh. Called before a
  // validation and before a checkpoint, so that both see the same state on every rank.
  void sync_buffers();

  // Parameters (masters) and buffers as "model/<FQN>"; StateDict::loaded() once it was filled from outside.
  StateDict state_dict(StateMemory memory = StateMemory::host);
  std::int64_t state_bytes() const;      // of all tensors that it names, of the whole model; nothing is copied for it
  std::string print() const;             // the module tree with its units, as --print-model shows it
  std::int64_t parameter_count() const;  // elements of all parameters, tied ones once
  // What the tensors are, for a line at start: "parameters bfloat16, masters float32, gradients bfloat16 on the wire,
  // summed in float32, buffers float32".
  std::string dtypes() const;

  Runtime& runtime() { return *runtime_; }

 private:
  friend std::unique_ptr<FullyShardedModule> fully_shard(std::shared_ptr<torch::nn::Module>, comm::DeviceMesh&,
                                                         const WrapPolicy&, const FullyShardOptions&);
  FullyShardedModule(std::unique_ptr<Runtime> runtime, std::unique_ptr<ModuleState> state);
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<ModuleState> state_;
};

// The cudaStream_t on which LibTorch queues this thread's work for `device`: what a group for its memory is made with.
void* current_stream(c10::Device device);

// Collective over the mesh, which must outlive the result. `module` must be of the dtypes it trains with, and have no
// gradients. After the call its parameters may be read only inside run() or
// summon_full_params(); elsewhere LibTorch throws.
std::unique_ptr<FullyShardedModule> fully_shard(std::shared_ptr<torch::nn::Module> module, comm::DeviceMesh& mesh,
                                                const WrapPolicy& policy, const FullyShardOptions& options);

}  // namespace shoal::fsdp
