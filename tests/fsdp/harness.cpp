#include "fsdp/harness.h"

#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "comm/nccl_process_group.h"
#include "core/hash.h"

namespace shoal::testing {

at::Device test_device() {
  const char* const wanted = std::getenv("SHOAL_TEST_DEVICE");
  if (wanted == nullptr || std::string(wanted) != "cuda") return at::kCPU;
  const char* const local_rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  return {at::kCUDA, static_cast<at::DeviceIndex>(local_rank ? std::atoi(local_rank) : 0)};
}

comm::ProcessGroup& device_world(comm::ProcessGroup& world) {
  if (test_device().is_cpu()) return world;
  // One communicator a process: making them takes longer than the tests. It is left to the end of the process.
  static const c10::DeviceGuard guard(test_device());
  static auto* const group =
      comm::make_nccl_group(world, test_device().index(), [] { return fsdp::current_stream(test_device()); }).release();
  return *group;
}

void fill_parameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    auto generator = at::detail::createCPUGenerator(hash_string(item.key()));
    item.value().normal_(0.0, 0.3, generator);
  }
}

std::pair<at::Tensor, at::Tensor> samples(const Job& job, int step, std::int64_t begin, std::int64_t count) {
  auto generator = at::detail::createCPUGenerator(hash_combine(17, static_cast<std::uint64_t>(step)));
  const auto options = at::TensorOptions().dtype(job.dtype);
  const at::Tensor x = at::randn({job.batch, job.features}, generator, options);
  const at::Tensor y = at::randn({job.batch, job.targets}, generator, options);
  return {x.narrow(0, begin, count).to(test_device()), y.narrow(0, begin, count).to(test_device())};
}

namespace {

at::Tensor loss_sum(const at::Tensor& prediction, const at::Tensor& target) {
  return (prediction - target).square().sum(1).sum();
}

TestModel prepared(const Job& job) {
  TestModel model = job.make();
  if (job.dtype != at::kDouble) model.module->to(job.dtype);
  fill_parameters(*model.module);
  model.module->to(test_device());
  return model;
}

// torch.optim.Adadelta, which the C++ torch::optim lacks, from the formulas of its documentation.
std::function<void()> adadelta(std::vector<at::Tensor> parameters, double lr) {
  struct State {
    at::Tensor square_avg, acc_delta;
  };
  auto states = std::make_shared<std::vector<State>>();
  for (const at::Tensor& p : parameters) states->push_back({torch::zeros_like(p), torch::zeros_like(p)});
  return [=] {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor g = parameters[i].grad();
      if (!g.defined()) continue;
      auto& [square_avg, acc_delta] = (*states)[i];
      square_avg.mul_(0.9).addcmul_(g, g, 0.1);
      const at::Tensor delta = (acc_delta + 1e-6).sqrt() / (square_avg + 1e-6).sqrt() * g;
      acc_delta.mul_(0.9).addcmul_(delta, delta, 0.1);
      parameters[i].add_(delta, -lr);
    }
  };
}

std::function<void()> plain_optimizer(const Job& job, const std::vector<at::Tensor>& parameters) {
  if (job.optimizer == "adadelta") return adadelta(parameters, job.lr);
  using namespace torch::optim;
  std::shared_ptr<Optimizer> optimizer;
  if (job.optimizer == "adamw")
    optimizer = std::make_shared<AdamW>(parameters, AdamWOptions(job.lr).weight_decay(0));
  else
    optimizer = std::make_shared<SGD>(parameters, SGDOptions(job.lr));
  return [optimizer] { optimizer->step(); };
}

double norm_of(const std::vector<at::Tensor>& parameters) {
  double sum = 0;
  for (const at::Tensor& p : parameters)
    if (p.grad().defined()) sum += p.grad().to(at::kDouble).square().sum().item<double>();
  return std::sqrt(sum);
}

}  // namespace

TrainResult train_plain(const Job& job) {
  TestModel model = prepared(job);
  std::vector<at::Tensor> trained;
  std::set<const void*> seen;  // tied ones once, as Python's optimizers take them
  for (const at::Tensor& p : model.module->parameters())
    if (p.requires_grad() && seen.insert(p.unsafeGetTensorImpl()).second) trained.push_back(p);
  const std::function<void()> optimizer_step = plain_optimizer(job, trained);
  TrainResult result;
  for (int step = 0; step < job.steps; ++step) {
    for (const at::Tensor& p : trained) p.mutable_grad().reset();
    const auto [x, y] = samples(job, step, 0, job.batch);
    const at::Tensor loss = loss_sum(model.forward(x), y) / job.batch;
    loss.backward();
    result.losses.push_back(loss.item<double>());
    const double norm = norm_of(trained);
    result.norms.push_back(norm);
    if (job.clip > 0 && norm > job.clip) {
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& p : trained)
        if (p.grad().defined()) p.mutable_grad().mul_(job.clip / norm);
    }
    optimizer_step();
  }
  for (const auto& item : model.module->named_parameters())
    result.weights[item.key()] = item.value().detach().cpu().clone();
  for (const auto& item : model.module->named_buffers())
    result.weights[item.key()] = item.value().detach().cpu().clone();
  return result;
}

TrainResult train_sharded(comm::ProcessGroup& world, const Job& job, const Sharding& sharding) {
  TestModel model = prepared(job);
  comm::DeviceMesh mesh(world, device_world(world),
                        fsdp::shard_group_size(sharding.strategy, world.size(), world.size(), sharding.shard_size),
                        sharding.regather_size);
  fsdp::FullyShardOptions options;
  options.reshard_after_forward = fsdp::reshards_after_forward(sharding.strategy);
  options.forward_prefetch = options.backward_prefetch = sharding.prefetch;
  auto sharded = fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy(sharding.wrap), options);
  fsdp::ShardedOptimizer optimizer(*sharded, optim::make_optimizer({.name = job.optimizer}));
  TrainResult result;
  for (int step = 0; step < job.steps; ++step) {
    double sum = 0;
    for (int part = 0; part < job.accumulate; ++part) {
      // Part p of the batch, cut among the ranks; parts may be uneven.
      const std::int64_t parts = static_cast<std::int64_t>(job.accumulate) * world.size();
      const std::int64_t index = static_cast<std::int64_t>(part) * world.size() + world.rank();
      const std::int64_t begin = job.batch * index / parts, end = job.batch * (index + 1) / parts;
      const auto [x, y] = samples(job, step, begin, end - begin);
      sharded->run([&, x = x, y = y] {
        const at::Tensor loss = loss_sum(model.forward(x), y);
        loss.backward();
        sum += loss.item<double>();
      });
    }
    result.losses.push_back(comm::all_reduce(world, sum, comm::ReduceOp::sum) / static_cast<double>(job.batch));
    double scale = 1.0 / static_cast<double>(job.batch);
    const double norm = sharded->grad_norm(scale);
    result.norms.push_back(norm);
    if (job.clip > 0 && norm > job.clip) scale *= job.clip / norm;
    optimizer.step(job.lr, scale);
  }
  result.weights = whole_weights(*sharded, *model.module);
  return result;
}

Weights whole_weights(fsdp::FullyShardedModule& sharded, torch::nn::Module& module) {
  Weights weights;
  sharded.summon_full_params([&] {
    for (const auto& item : module.named_parameters()) weights[item.key()] = item.value().detach().cpu().clone();
    for (const auto& item : module.named_buffers()) weights[item.key()] = item.value().detach().cpu().clone();
  });
  return weights;
}

void expect_same(const TrainResult& a, const TrainResult& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * std::abs(a.losses[i])) << "loss of step " << i;
    EXPECT_NEAR(a.norms[i], b.norms[i], tolerance * std::abs(a.norms[i])) << "gradient norm of step " << i;
  }
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, weight] : a.weights) {
    ASSERT_TRUE(b.weights.contains(name)) << name;
    if (weight.numel() == 0) continue;
    const double scale = std::max(1.0, weight.to(at::kDouble).abs().max().item<double>());
    const double worst = (weight - b.weights.at(name)).to(at::kDouble).abs().max().item<double>();
    EXPECT_LE(worst, tolerance * scale) << name;
  }
}

Sharded shard(comm::ProcessGroup& world, const MakeModel& make, const std::string& wrap,
              fsdp::FullyShardOptions options) {
  Sharded s;
  s.model = make();
  fill_parameters(*s.model.module);
  s.model.module->to(test_device());
  s.mesh = std::make_unique<comm::DeviceMesh>(world, device_world(world), world.size());
  s.fsdp = fsdp::fully_shard(s.model.module, *s.mesh, *fsdp::parse_wrap_policy(wrap), options);
  return s;
}

}  // namespace shoal::testing
