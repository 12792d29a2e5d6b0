// Models that know nothing of sharding, and the two ways to train them that must agree: a plain LibTorch loop over the
// whole batch on one rank, and FSDP over parts of it on many.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/process_group.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"

namespace shoal::testing {

// A module of any kind with a forward of one tensor.
struct TestModel {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(at::Tensor)> forward;
};
using MakeModel = std::function<TestModel()>;

using Weights = std::map<std::string, at::Tensor>;

struct TrainResult {
  std::vector<double> losses;  // mean over the whole batch, before each step
  std::vector<double> norms;   // of the gradient of the mean loss
  Weights weights;             // of the whole model, after the last step
};

struct Job {
  MakeModel make;
  at::ScalarType dtype = at::kDouble;
  std::int64_t batch = 12, features = 6, targets = 5;
  int steps = 3;
  int accumulate = 1;  // parts of the batch, one run() each
  double lr = 0.1;
  double clip = 0;  // 0: none
  std::string optimizer = "adadelta";
};

struct Sharding {
  fsdp::Strategy strategy = fsdp::Strategy::full_shard;
  std::string wrap = "none";
  int shard_size = 0;
  int prefetch = 1;
  int regather_size = 0;
};

// Where the cases run: the CPU, or with SHOAL_TEST_DEVICE=cuda under mpirun the GPU of the local rank.
at::Device test_device();
// The group for data of test_device(). Collective over `world`.
comm::ProcessGroup& device_world(comm::ProcessGroup& world);

// Gives every parameter values that depend on its name alone.
void fill_parameters(torch::nn::Module& module);

TrainResult train_plain(const Job& job);
// Collective over `world`.
TrainResult train_sharded(comm::ProcessGroup& world, const Job& job, const Sharding& sharding);

// The inputs and targets of the samples [begin, begin + count) of step `step`.
std::pair<at::Tensor, at::Tensor> samples(const Job& job, int step, std::int64_t begin, std::int64_t count);

// Fails the running test where losses, norms or weights differ by more than `tolerance`, relative to the largest value.
void expect_same(const TrainResult& a, const TrainResult& b, double tolerance);

// All parameters and buffers by name, as copies. Collective over the mesh.
Weights whole_weights(fsdp::FullyShardedModule& sharded, torch::nn::Module& module);

// A model cut over all ranks of `world`, with its parameters filled by name.
struct Sharded {
  TestModel model;
  std::unique_ptr<comm::DeviceMesh> mesh;
  std::unique_ptr<fsdp::FullyShardedModule> fsdp;
};
Sharded shard(comm::ProcessGroup& world, const MakeModel& make, const std::string& wrap = "class:Block",
              fsdp::FullyShardOptions options = {});

// ---- Models

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width, bool dropout = false);
  at::Tensor forward(at::Tensor x);
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

TestModel make_mlp();           // embed, three Blocks, norm, head; primes everywhere
TestModel make_tied();          // two names for one weight, in different units
TestModel make_frozen();        // the middle Block is frozen
TestModel make_unused();        // a Block that no forward uses, and a parameter nobody reads
TestModel make_twice();         // one Block used two times, with another between
TestModel make_mixed_dtypes();  // float64 and float32 parameters in one unit
TestModel make_tiny();          // fewer elements than ranks
TestModel make_conv();          // convolution, pooling, batch norm in eval mode

}  // namespace shoal::testing
