// Every way to train a model that ships with Shoal gives the numbers of plain LibTorch on one device: strategies ×
// dtypes × accumulation × activation checkpointing × offload, on the ranks that the test was started with. On the CPU a
// part of the products, on GPUs (SHOAL_TEST_DEVICE=cuda, under mpirun) all of them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/device_mesh.h"
#include "fsdp/fully_shard.h"
#include "fsdp/harness.h"
#include "fsdp/sharded_optimizer.h"
#include "models/registry.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

constexpr int kSteps = 10;
constexpr std::int64_t kBatch = 8, kLength = 24, kVocabulary = 96;
constexpr double kRate = 1e-3, kDecay = 0.1;

std::unique_ptr<models::Model> make_model(const std::string& name) {
  const models::ModelEntry& entry = models::find_model(name);
  models::ModelOptions shape;
  shape.layers = 3;
  shape.hidden_size = 64;
  shape.vocab_size = kVocabulary;
  shape.max_positions = kLength;
  if (entry.shape.kv_heads > 0) shape.intermediate_size = 160;
  return entry.make(models::complete(entry, shape));
}

data::Batch batch_of(int step, std::int64_t begin, std::int64_t count) {
  const at::Tensor index = at::arange(kBatch * (kLength + 1), at::kLong).view({kBatch, kLength + 1});
  const at::Tensor tokens = (index * 7919 + (index / 5).floor().to(at::kLong) * 31 + step * 101).remainder(kVocabulary);
  const at::Tensor mine = tokens.narrow(0, begin, count).to(test_device());
  return {mine.narrow(1, 0, kLength).contiguous(), mine.narrow(1, 1, kLength).contiguous()};
}

// Each parameter once: LibTorch lists a tied one under both its names, and would step it twice.
std::vector<at::Tensor> parameters_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> parameters;
  std::set<const void*> seen;
  for (const at::Tensor& parameter : module.parameters())
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) parameters.push_back(parameter);
  return parameters;
}

// The mean losses of the steps, of torch::optim::AdamW on the whole batch.
std::vector<double> plain_losses(const std::string& name) {
  const auto model = make_model(name);
  model->module()->to(test_device());
  model->module()->train();
  torch::optim::AdamW optimizer(parameters_of(*model->module()),
                                torch::optim::AdamWOptions(kRate).betas({0.9, 0.999}).eps(1e-8).weight_decay(kDecay));
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const models::LossSum loss = model->loss(batch_of(step, 0, kBatch));
    (loss.sum / static_cast<double>(loss.count)).backward();
    optimizer.step();
    losses.push_back(loss.sum.item<double>() / static_cast<double>(loss.count));
  }
  return losses;
}

struct Way {
  fsdp::Strategy strategy = fsdp::Strategy::full_shard;
  bool sixteen_bits = false;
  std::string accumulate = "none";  // reduce, defer, keep: two micro-steps, by that mode
  std::string checkpoint = "none";
  fsdp::Offload offload = fsdp::Offload::none;

  int micro_steps() const { return accumulate == "none" ? 1 : 2; }
  std::string text() const {
    const char* const offloads[] = {"none", "optimizer", "params"};
    return std::string(fsdp::name_of(strategy)) + (sixteen_bits ? " bf16" : " fp32") + " accumulate " + accumulate +
           " checkpoint " + checkpoint + " offload " + offloads[static_cast<int>(offload)];
  }
};

fsdp::FullyShardOptions options_of(const Way& way) {
  fsdp::FullyShardOptions options;
  options.reshard_after_forward = fsdp::reshards_after_forward(way.strategy);
  options.activation_checkpoint = way.checkpoint;
  options.offload = way.offload;
  options.device = test_device();
  if (way.sixteen_bits) {
    options.mixed_precision.param_dtype = at::kBFloat16;
    options.mixed_precision.reduce_dtype = at::kFloat;
  }
  return options;
}

std::vector<double> sharded_losses(comm::ProcessGroup& world, comm::DeviceMesh& mesh, const std::string& name,
                                   const Way& way) {
  const auto model = make_model(name);
  model->module()->to(test_device());
  model->module()->train();
  const auto policy = fsdp::parse_wrap_policy(models::find_model(name).defaults.wrap);
  const auto sharded = fsdp::fully_shard(model->module(), mesh, *policy, options_of(way));
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = "adamw", .weight_decay = kDecay}));
  const std::int64_t part = kBatch / world.size() / way.micro_steps();
  sharded->set_requires_all_reduce(way.accumulate != "defer");
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    double sum = 0, count = 0;
    for (int micro = 0; micro < way.micro_steps(); ++micro) {
      sharded->set_requires_gradient_sync(way.accumulate != "keep" || micro + 1 == way.micro_steps());
      models::LossSum loss;
      sharded->run([&] {
        loss = model->loss(batch_of(step, (micro * world.size() + world.rank()) * part, part));
        loss.sum.backward();
      });
      sum += loss.sum.item<double>();
      count += static_cast<double>(loss.count);
    }
    count = comm::all_reduce(world, count, comm::ReduceOp::sum);
    losses.push_back(comm::all_reduce(world, sum, comm::ReduceOp::sum) / count);
    optimizer.step(kRate, 1.0 / count);
  }
  return losses;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return std::isnan(largest) ? INFINITY : largest;
}

// Every way on a GPU. On the CPU what differs in code, and not all products of it.
bool is_wanted(const Way& way) {
  if (!test_device().is_cpu()) return true;
  const bool once_more = way.accumulate == "defer" || way.accumulate == "keep";
  const int unusual = (way.accumulate != "none") + (way.checkpoint != "none") + (way.offload != fsdp::Offload::none);
  if (unusual == 0) return true;
  return way.strategy == fsdp::Strategy::hybrid_shard && (once_more ? unusual == 1 : unusual >= 2);
}

std::vector<Way> ways() {
  std::vector<Way> list;
  for (const auto strategy : {fsdp::Strategy::full_shard, fsdp::Strategy::shard_grad_op, fsdp::Strategy::no_shard,
                              fsdp::Strategy::hybrid_shard, fsdp::Strategy::hybrid_shard_zero2})
    for (const bool sixteen_bits : {false, true})
      for (const char* accumulate : {"none", "reduce", "defer", "keep"})
        for (const char* checkpoint : {"none", "full", "selective"})
          for (const auto offload : {fsdp::Offload::none, fsdp::Offload::optimizer, fsdp::Offload::params}) {
            const Way way{strategy, sixteen_bits, accumulate, checkpoint, offload};
            if (is_wanted(way)) list.push_back(way);
          }
  return list;
}

void expect_all_ways_agree(comm::ProcessGroup& world, const std::string& name) {
  ASSERT_EQ(kBatch % (2 * world.size()), 0) << "as many ranks as divide the batch";
  const std::vector<double> plain = plain_losses(name);
  EXPECT_LT(plain.back(), plain.front() - 0.1) << "nothing was learned";
  std::vector<std::unique_ptr<comm::DeviceMesh>> meshes(static_cast<std::size_t>(world.size()) + 1);
  double worst[2] = {0, 0};
  int count = 0;
  for (const Way& way : ways()) {
    const int size = fsdp::shard_group_size(way.strategy, world.size(), world.size(), std::max(1, world.size() / 2));
    auto& mesh = meshes[static_cast<std::size_t>(size)];
    if (!mesh) mesh = std::make_unique<comm::DeviceMesh>(world, device_world(world), size);
    const double apart = largest_difference(sharded_losses(world, *mesh, name, way), plain);
    EXPECT_LE(apart, way.sixteen_bits ? 2e-2 : 1e-5) << name << ", " << way.text();
    worst[way.sixteen_bits ? 1 : 0] = std::max(worst[way.sixteen_bits ? 1 : 0], apart);
    ++count;
  }
  if (world.rank() == 0)
    std::printf(
        "%s on %d ranks, %d ways, %d steps: losses at most %.1e (fp32), %.1e (bf16) from plain LibTorch's fp32\n",
        name.c_str(), world.size(), count, kSteps, worst[0], worst[1]);
}

TEST(Matrix, GPT2) {
  on_ranks([](comm::ProcessGroup& world) { expect_all_ways_agree(world, "gpt2-tiny"); });
}

TEST(Matrix, Llama) {
  on_ranks([](comm::ProcessGroup& world) { expect_all_ways_agree(world, "llama-tiny"); });
}

}  // namespace
}  // namespace shoal::testing
