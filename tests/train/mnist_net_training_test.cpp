// The tutorial's Net on real digits: steps of StepRunner at any number of ranks against a plain LibTorch loop. Dropout
// is switched off, since its masks belong to ranks.
#include <gtest/gtest.h>

#include "comm/device_mesh.h"
#include "comm/mpi_process_group.h"
#include "data/mnist_dataset.h"
#include "models/registry.h"
#include "train/batch_feed.h"
#include "train/small_problem.h"
#include "train/step_runner.h"

namespace shoal::train {
namespace {

constexpr std::int64_t kBatch = 24;
constexpr int kSteps = 5;
constexpr double kLearningRate = 0.05;

struct Result {
  std::vector<double> losses;
  Weights weights;
};

std::unique_ptr<models::Model> net_without_dropout() {
  auto model = models::find_model("mnist-net").make({.seed = 1});
  model->module()->apply([](torch::nn::Module& m) {
    if (auto* dropout = dynamic_cast<torch::nn::DropoutImpl*>(&m)) dropout->options.p(0);
  });
  return model;
}

Result train_plainly(const data::Dataset& data) {
  const auto model = net_without_dropout();
  data::Sampler sampler(data.size(), 1, true);
  torch::optim::SGD optimizer(model->module()->parameters(), torch::optim::SGDOptions(kLearningRate).momentum(0.9));
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss =
        model->loss(data.batch(sampler.samples(0, {step * kBatch, kBatch}))).sum / static_cast<double>(kBatch);
    loss.backward();
    optimizer.step();
    result.losses.push_back(loss.item<double>());
  }
  result.weights = copy_weights(*model->module());
  return result;
}

Result train_sharded(comm::ProcessGroup& world, const data::Dataset& data, fsdp::Strategy strategy) {
  const auto model = net_without_dropout();
  comm::DeviceMesh mesh(world, world, fsdp::shard_group_size(strategy, world.size(), world.size(), 0));
  const auto sharded = fsdp::fully_shard(model->module(), mesh, *fsdp::parse_wrap_policy("size:20000"),
                                         {.reshard_after_forward = fsdp::reshards_after_forward(strategy)});
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = "sgd", .momentum = 0.9}));
  data::Sampler sampler(data.size(), 1, true);
  const BatchPlan plan{.global_batch = kBatch, .micro_steps = 2, .ranks = world.size()};
  StepRunner runner({world, *model, *sharded, optimizer, data, &data}, plan, {});
  BatchFeed feed(data, sampler, plan, world.rank(), {}, 1);
  Result result;
  for (int step = 0; step < kSteps; ++step)
    result.losses.push_back(runner
                                .run(
                                    sampler, [&] { return feed.next(); }, 0, {step * kBatch, kBatch}, step,
                                    kLearningRate, [] { return Asks{}; })
                                .mean_loss());
  sharded->summon_full_params([&] { result.weights = copy_weights(*model->module()); });
  return result;
}

TEST(MnistNetTraining, EqualsAPlainLoopWithEachStrategy) {
  comm::MpiProcessGroup world(MPI_COMM_WORLD);
  const data::MnistDataset data(SHOAL_MNIST_FOLDER, data::Split::test);
  const Result expected = train_plainly(data);
  EXPECT_LT(expected.losses.back(), expected.losses.front()) << "it learns";
  for (const fsdp::Strategy strategy :
       {fsdp::Strategy::full_shard, fsdp::Strategy::shard_grad_op, fsdp::Strategy::no_shard}) {
    SCOPED_TRACE(fsdp::name_of(strategy));
    const Result result = train_sharded(world, data, strategy);
    for (int step = 0; step < kSteps; ++step) EXPECT_NEAR(result.losses[step], expected.losses[step], 2e-5) << step;
    EXPECT_LT(largest_difference(result.weights, expected.weights), 2e-5);
  }
}

}  // namespace
}  // namespace shoal::train
