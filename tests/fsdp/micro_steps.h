// Training in micro-steps: micro-batch k of a step is trained by rank k % ranks in micro-step k / ranks. The same
// micro-batches at any number of ranks; a rank without one goes through the motions with a loss of zero.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fsdp/accumulation.h"
#include "fsdp/harness.h"

namespace shoal::testing {

using fsdp::Accumulation;

struct MicroJob {
  MakeModel make = make_mlp;
  at::ScalarType dtype = at::kFloat;  // of the module as it is built
  int micro_batches = 4;              // of a step
  int steps = 2;
  double lr = 0.0625;
  std::string optimizer = "sgd";
  fsdp::Strategy strategy = fsdp::Strategy::full_shard;
  std::string wrap = "class:Block";
  int shard_size = 0;
  fsdp::FullyShardOptions options = {};
  Accumulation accumulation = Accumulation::defer;
  std::function<bool(int)> counts = {};  // micro-batches whose loss is not multiplied by zero; empty: all
};

struct MicroResult {
  std::vector<double> norms;
  Weights gradients;  // sums of the last step
  Weights masters;    // after the last step
};

// Collective over `world`.
MicroResult train_micro(comm::ProcessGroup& world, const MicroJob& job);
// The same on one rank of its own, whatever job this is called in.
MicroResult train_micro_on_one_rank(const MicroJob& job);

// Options with a policy alone.
fsdp::FullyShardOptions policy(std::optional<at::ScalarType> param, std::optional<at::ScalarType> reduce = {},
                               std::optional<at::ScalarType> buffer = {});

// The module as train_micro() starts with, before it is cut.
TestModel prepared(const MicroJob& job);
// The same, cut as the job says, with its optimizer. Collective over `world`.
struct MicroTraining {
  TestModel model;
  std::unique_ptr<comm::DeviceMesh> mesh;
  std::unique_ptr<fsdp::FullyShardedModule> sharded;
  std::unique_ptr<fsdp::ShardedOptimizer> optimizer;
};
MicroTraining set_up(comm::ProcessGroup& world, const MicroJob& job);
// Backward from micro-batch `k` of step `step`, multiplied by zero where `counts` is false. Inputs have the type of the
// parameters; the loss has that of the job.
void backward(TestModel& model, const MicroJob& job, int step, int k, bool counts = true);

// All tensors of `state` without `prefix`, bit by bit as the ranks hold them. Collective over `world`.
Weights whole_tensors(comm::ProcessGroup& world, const StateDict& state, const std::string& prefix);
// Masters of the module, and the gradients that it holds. Collective over `world`.
Weights whole_masters(comm::ProcessGroup& world, fsdp::FullyShardedModule& sharded);
Weights whole_gradients(comm::ProcessGroup& world, fsdp::FullyShardedModule& sharded);

// Largest |a - b| over all tensors, which must be the same.
double largest_difference(const Weights& a, const Weights& b);
double largest_value(const Weights& a);
void expect_same_bits(const Weights& a, const Weights& b);

}  // namespace shoal::testing
