#include "fsdp/micro_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "comm/fake_process_group.h"
#include "fsdp/runtime.h"

namespace shoal::testing {
namespace {

constexpr std::int64_t kSamples = 3;  // a micro-batch

at::ScalarType bits_of(at::ScalarType type) {
  switch (c10::elementSize(type)) {
    case 8: return at::kLong;
    case 4: return at::kInt;
    case 2: return at::kShort;
    default: return at::kByte;
  }
}

void take_step(const MicroJob& job, TestModel& model, comm::ProcessGroup& world, fsdp::FullyShardedModule& sharded,
               int step) {
  const int micro_steps = (job.micro_batches + world.size() - 1) / world.size();
  sharded.set_requires_all_reduce(job.accumulation == Accumulation::reduce);
  for (int m = 0; m < micro_steps; ++m) {
    sharded.set_requires_gradient_sync(job.accumulation != Accumulation::keep || m + 1 == micro_steps);
    const int k = m * world.size() + world.rank();
    const bool counts = k < job.micro_batches && (!job.counts || job.counts(k));
    sharded.run([&] { backward(model, job, step, k % job.micro_batches, counts); });
  }
}

}  // namespace

fsdp::FullyShardOptions policy(std::optional<at::ScalarType> param, std::optional<at::ScalarType> reduce,
                               std::optional<at::ScalarType> buffer) {
  fsdp::FullyShardOptions options;
  options.mixed_precision = {param, reduce, buffer};
  return options;
}

TestModel prepared(const MicroJob& job) {
  TestModel model = job.make();
  model.module->to(job.dtype);
  fill_parameters(*model.module);
  model.module->to(test_device());
  return model;
}

void backward(TestModel& model, const MicroJob& job, int step, int k, bool counts) {
  const Job data{.make = job.make, .dtype = job.dtype, .batch = kSamples * job.micro_batches};
  const auto [x, y] = samples(data, step, kSamples * k, kSamples);
  const at::Tensor prediction = model.forward(x.to(model.module->parameters()[0].scalar_type())).to(job.dtype);
  const at::Tensor loss = (prediction - y).square().sum();
  (counts ? loss : loss * 0).backward();
}

MicroTraining set_up(comm::ProcessGroup& world, const MicroJob& job) {
  TestModel model = prepared(job);
  auto mesh = std::make_unique<comm::DeviceMesh>(
      world, device_world(world), fsdp::shard_group_size(job.strategy, world.size(), world.size(), job.shard_size));
  fsdp::FullyShardOptions options = job.options;
  options.reshard_after_forward = fsdp::reshards_after_forward(job.strategy);
  auto sharded = fsdp::fully_shard(model.module, *mesh, *fsdp::parse_wrap_policy(job.wrap), options);
  auto optimizer = std::make_unique<fsdp::ShardedOptimizer>(*sharded, optim::make_optimizer({.name = job.optimizer}));
  return {std::move(model), std::move(mesh), std::move(sharded), std::move(optimizer)};
}

MicroResult train_micro(comm::ProcessGroup& world, const MicroJob& job) {
  auto [model, mesh, sharded, optimizer] = set_up(world, job);
  MicroResult result;
  for (int step = 0; step < job.steps; ++step) {
    take_step(job, model, world, *sharded, step);
    const double scale = 1.0 / static_cast<double>(kSamples * job.micro_batches);
    result.norms.push_back(sharded->grad_norm(scale));
    if (step + 1 == job.steps) result.gradients = whole_gradients(world, *sharded);
    optimizer->step(job.lr, scale);
  }
  result.masters = whole_masters(world, *sharded);
  return result;
}

MicroResult train_micro_on_one_rank(const MicroJob& job) {
  MicroResult result;
  comm::FakeWorld(1).run([&](comm::ProcessGroup& alone) { result = train_micro(alone, job); });
  return result;
}

Weights whole_tensors(comm::ProcessGroup& world, const StateDict& state, const std::string& prefix) {
  Weights whole;
  for (const ShardedTensor& t : state.tensors) {
    const at::ScalarType type = fsdp::torch_internals::scalar_type_of(t.spec.dtype);
    const at::Tensor values = at::zeros(t.spec.shape, at::TensorOptions().dtype(type));
    const auto width = static_cast<std::size_t>(values.element_size());
    if (t.saves && t.region.count > 0)
      std::memcpy(static_cast<std::byte*>(values.data_ptr()) + static_cast<std::size_t>(t.region.begin) * width,
                  t.region.data, static_cast<std::size_t>(t.region.count) * width);
    // Sums of integers, of which all but one are zero, keep every bit.
    const DType bits = fsdp::torch_internals::dtype_of(bits_of(type));
    world.all_reduce(values.data_ptr(), values.numel(), bits, comm::ReduceOp::sum)->wait();
    whole[t.spec.name.substr(prefix.size())] = values;
  }
  return whole;
}

Weights whole_masters(comm::ProcessGroup& world, fsdp::FullyShardedModule& sharded) {
  return whole_tensors(world, sharded.state_dict(), "model/");
}

Weights whole_gradients(comm::ProcessGroup& world, fsdp::FullyShardedModule& sharded) {
  StateDict state;
  sharded.runtime().for_each_flat([&](fsdp::FlatParameter& flat) {
    if (const at::Tensor& gradient = flat.gradient(); gradient.defined())
      state.append(flat.state_dict("", gradient, fsdp::StateMemory::host));
  });
  return whole_tensors(world, state, "");
}

double largest_difference(const Weights& a, const Weights& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    if (other == b.end()) {
      ADD_FAILURE() << name << " is missing";
    } else if (value.numel() > 0) {
      worst = std::max(worst, (value.to(at::kDouble) - other->second.to(at::kDouble)).abs().max().item<double>());
    }
  }
  return worst;
}

double largest_value(const Weights& a) {
  double largest = 0;
  for (const auto& [name, value] : a)
    if (value.numel() > 0) largest = std::max(largest, value.to(at::kDouble).abs().max().item<double>());
  return largest;
}

void expect_same_bits(const Weights& a, const Weights& b) {
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    const at::ScalarType bits = bits_of(value.scalar_type());
    EXPECT_TRUE(value.view(bits).equal(b.at(name).view(bits))) << name;
  }
}

}  // namespace shoal::testing
