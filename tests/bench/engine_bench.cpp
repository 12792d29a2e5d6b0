// What the engine costs on the CPU, as ratios within one run: the interceptor an operator, FSDP on one rank beside a
// plain LibTorch loop, interception as a share of a step, and a step of AdamW beside LibTorch's fused one.
//   engine_bench [rounds]      JSON lines; docs/benchmarks.md holds measured ones
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

// A parameter of 64 MiB, more than caches hold, whose gradient costs little.
constexpr std::int64_t kElements = 1 << 24;

struct OneParameterImpl : torch::nn::Module {
  OneParameterImpl() { weight = register_parameter("weight", torch::randn({kElements})); }
  at::Tensor weight;
};

// What AdamW moves: parameter and two states in and out, the gradient in.
double gigabytes_a_second(double seconds) { return 7 * 4 * static_cast<double>(kElements) / seconds / 1e9; }

Step fused_adamw() {
  const at::Tensor weight = torch::randn({kElements}), gradient = torch::randn({kElements});
  const at::Tensor exp_avg = torch::zeros({kElements}), exp_avg_sq = torch::zeros({kElements});
  const at::Tensor step = torch::ones({});
  return [=] {
    at::_fused_adamw_({weight}, {gradient}, {exp_avg}, {exp_avg_sq}, {}, {step}, 1e-3, 0.9, 0.999, 0.1, 1e-8, false,
                      false);
  };
}

void adamw_bench(comm::ProcessGroup& world, int rounds) {
  comm::DeviceMesh mesh(world, world, world.size());
  const auto model = std::make_shared<OneParameterImpl>();
  const auto module = fsdp::fully_shard(model, mesh, *fsdp::parse_wrap_policy("none"), {});
  fsdp::ShardedOptimizer optimizer(*module, optim::make_optimizer({.name = "adamw", .weight_decay = 0.1}));
  const Step fused = fused_adamw(), ours = [&] { optimizer.step(1e-3, 1); };
  module->run([&] { model->weight.sum().backward(); });
  fused(), ours();  // touch all memory
  const auto measure = [&](int threads) {
    std::vector<double> seconds, ratios;
    for (int i = 0; i < rounds; ++i) {
      module->run([&] { model->weight.sum().backward(); });
      torch::set_num_threads(threads);
      const double anchor = seconds_of(fused, 1);
      seconds.push_back(seconds_of(ours, 1));
      ratios.push_back(seconds.back() / anchor);
    }
    fmt::print(
        "{{\"bench\": \"adamw\", \"rounds\": {}, \"threads\": {}, \"gigabytes_a_second\": {:.2f}, "
        "\"seconds_over_fused\": {:.3f}}}\n",
        rounds, threads, gigabytes_a_second(median(seconds)), median(ratios));
  };
  for (const int threads : {1, 2}) measure(threads);
  torch::set_num_threads(1);
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
    adamw_bench(world, rounds);
  });
  return 0;
}
