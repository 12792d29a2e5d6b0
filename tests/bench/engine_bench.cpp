// What the engine costs on the CPU, as ratios within one run: the interceptor an operator, FSDP on one rank beside a
// plain LibTorch loop, and interception as a share of a step.
//   engine_bench [rounds]      one JSON line; docs/benchmarks.md holds measured ones
#include <fmt/core.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <vector>

#include "comm/fake_process_group.h"
#include "core/timer.h"
#include "fsdp/fully_shard.h"
#include "fsdp/sharded_optimizer.h"
#include "fsdp/torch_internals.h"
#include "models/mnist_net.h"

namespace {

using namespace shoal;
namespace internals = fsdp::torch_internals;

constexpr int kBatch = 64;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Seconds an operator of the smallest kind, with or without interception.
double operator_seconds(bool intercepted) {
  const torch::NoGradGuard no_grad;
  constexpr int kCalls = 200'000;
  at::Tensor x = torch::zeros({8}), y = torch::ones({8});
  std::optional<internals::InterceptScope> scope;
  if (intercepted) scope.emplace();
  const Timer timer;
  for (int i = 0; i < kCalls; ++i) x.add_(y);
  return timer.seconds() / kCalls;
}

data::Batch random_batch() { return {torch::randn({kBatch, 1, 28, 28}), torch::randint(10, {kBatch}, torch::kLong)}; }

using Step = std::function<void()>;

Step plain_step() {
  std::shared_ptr<models::Model> model = models::make_mnist_net(1);
  auto optimizer = std::make_shared<torch::optim::SGD>(model->module()->parameters(), torch::optim::SGDOptions(0.01));
  return [=, batch = random_batch()] {
    optimizer->zero_grad();
    model->loss(batch).sum.div(kBatch).backward();
    optimizer->step();
  };
}

struct ShardedJob {
  std::unique_ptr<comm::DeviceMesh> mesh;
  std::shared_ptr<models::Model> model = models::make_mnist_net(1);
  std::unique_ptr<fsdp::FullyShardedModule> module;
  std::unique_ptr<fsdp::ShardedOptimizer> optimizer;
};

Step sharded_step(comm::ProcessGroup& world) {
  auto job = std::make_shared<ShardedJob>();
  job->mesh = std::make_unique<comm::DeviceMesh>(world, world, world.size());
  job->module = fsdp::fully_shard(job->model->module(), *job->mesh, *fsdp::parse_wrap_policy("size:20000"), {});
  job->optimizer = std::make_unique<fsdp::ShardedOptimizer>(*job->module, optim::make_optimizer({.name = "sgd"}));
  return [=, batch = random_batch()] {
    job->module->run([&] { job->model->loss(batch).sum.backward(); });
    job->optimizer->step(0.01, 1.0 / kBatch);
  };
}

double seconds_of(const Step& step, int steps) {
  const Timer timer;
  for (int i = 0; i < steps; ++i) step();
  return timer.seconds() / steps;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  torch::set_num_threads(1);
  torch::manual_seed(1);
  std::vector<double> bare, intercepted;
  for (int i = 0; i < rounds; ++i) {
    bare.push_back(operator_seconds(false));
    intercepted.push_back(operator_seconds(true));
  }
  const double interceptor = median(intercepted) - median(bare);

  comm::FakeWorld(1).run([&](comm::ProcessGroup& world) {
    const Step plain = plain_step(), sharded = sharded_step(world);
    constexpr int kSteps = 10;
    seconds_of(plain, kSteps), seconds_of(sharded, kSteps);
    std::vector<double> plain_seconds, ratios;
    for (int i = 0; i < rounds; ++i) {  // side by side, so that a busy moment of the machine hits both
      const double p = seconds_of(plain, kSteps);
      plain_seconds.push_back(p);
      ratios.push_back(seconds_of(sharded, kSteps) / p);
    }
    // With one rank nothing is intercepted: count the operators of a step by intercepting the plain one.
    const std::int64_t before = internals::intercepted_operators();
    {
      const internals::InterceptScope scope;
      plain();
    }
    const auto operators = static_cast<double>(internals::intercepted_operators() - before);
    fmt::print(
        "{{\"bench\": \"engine\", \"rounds\": {}, \"interceptor_ns_per_operator\": {:.0f}, \"mnist_step_ms\": {:.2f}, "
        "\"operators_per_step\": {:.0f}, \"interception_share_of_step\": {:.4f}, \"one_rank_over_plain_loop\": "
        "{:.3f}}}\n",
        rounds, interceptor * 1e9, median(plain_seconds) * 1e3, operators,
        operators * interceptor / median(plain_seconds), median(ratios));
  });
  return 0;
}
