// Gradients that are sent in 16 bits and summed in full precision: the bits of a reduce-scatter in full precision.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "comm/local_reduce.h"
#include "fsdp/counting_group.h"
#include "fsdp/micro_steps.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using Syncs = std::vector<bool>;  // of each micro-step of a step

constexpr int kMostMicroBatches = 20;

MicroJob job_of(const MakeModel& make, at::ScalarType param = at::kBFloat16) {
  return {.make = make, .micro_batches = kMostMicroBatches, .options = policy(param)};
}

// Of micro-batch `k`, as autograd gives it, widened to fp32; zeros where it gives none.
Weights plain_gradients(const MicroJob& job, int k) {
  TestModel model = prepared(job);
  const at::ScalarType param = *job.options.mixed_precision.param_dtype;
  for (const auto& item : model.module->named_parameters()) item.value().set_data(item.value().detach().to(param));
  backward(model, job, 0, k);
  Weights gradients;
  std::set<const void*> seen;  // tied ones count under their first name
  for (const auto& item : model.module->named_parameters()) {
    if (!item.value().requires_grad() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    const at::Tensor& gradient = item.value().grad();
    const at::Tensor values = gradient.defined() ? gradient : at::zeros_like(item.value());
    gradients[item.key()] = values.detach().cpu().to(at::kFloat);
  }
  return gradients;
}

at::Tensor tree(const std::vector<at::Tensor>& terms) {
  std::vector<const void*> inputs;
  for (const at::Tensor& term : terms) inputs.push_back(term.data_ptr());
  at::Tensor sum = at::empty_like(terms[0]);
  comm::local_reduce(inputs, sum.data_ptr(), sum.numel(), DType::float32, comm::ReduceOp::sum);
  return sum;
}

void add(Weights& sums, const std::string& name, const at::Tensor& term) {
  const auto there = sums.find(name);
  if (there == sums.end())
    sums[name] = term;
  else
    there->second = there->second + term;
}

// What ranks reduce together in fp32: each adds up what it keeps, the tree over the ranks is added up run by run.
Weights in_full_precision(const MicroJob& job, int ranks, const Syncs& syncs) {
  Weights sums;
  std::vector<Weights> kept(static_cast<std::size_t>(ranks));
  for (std::size_t m = 0; m < syncs.size(); ++m) {
    for (std::size_t r = 0; r < kept.size(); ++r)
      for (const auto& [name, gradient] : plain_gradients(job, static_cast<int>(m * kept.size() + r)))
        add(kept[r], name, gradient);
    if (!syncs[m]) continue;
    for (const auto& [name, first] : kept[0]) {
      std::vector<at::Tensor> terms;
      for (const Weights& of_rank : kept) terms.push_back(of_rank.at(name));
      add(sums, name, tree(terms));
    }
    for (Weights& of_rank : kept) of_rank.clear();
  }
  return sums;
}

Weights sharded_gradients(comm::ProcessGroup& world, const MicroJob& job, const Syncs& syncs, int shard_size) {
  TestModel model = prepared(job);
  comm::DeviceMesh mesh(world, device_world(world), shard_size);
  auto sharded = fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy(job.wrap), job.options);
  sharded->set_requires_all_reduce(true);
  for (std::size_t m = 0; m < syncs.size(); ++m) {
    sharded->set_requires_gradient_sync(syncs[m]);
    const int k = static_cast<int>(m) * world.size() + world.rank();
    sharded->run([&] { backward(model, job, 0, k); });
  }
  return whole_gradients(world, *sharded);
}

void expect_the_bits_of_full_precision(comm::ProcessGroup& world, const MicroJob& job, const Syncs& syncs,
                                       int shard_size) {
  SCOPED_TRACE(fmt::format("{} ranks, shard groups of {}, sync {}", world.size(), shard_size, fmt::join(syncs, " ")));
  // What is kept goes by reduce-scatter and what is replicated by all-reduce, for which NCCL has an order of its own.
  const bool in_order = shard_size == world.size() && std::count(syncs.begin(), syncs.end(), false) == 0;
  if (!test_device().is_cpu() && world.size() > 2 && !in_order) return;
  expect_same_bits(in_full_precision(job, world.size(), syncs), sharded_gradients(world, job, syncs, shard_size));
}

TEST(Wire, SixteenBitsGiveTheBitsOfFullPrecision) {
  for (const auto param : {at::kBFloat16, at::kHalf})
    on_ranks([&](comm::ProcessGroup& world) {
      for (const Syncs& syncs : {Syncs{true}, Syncs{true, true, true}, Syncs{false, true}, Syncs{true, false, true},
                                 Syncs{false, false, true, true}})
        expect_the_bits_of_full_precision(world, job_of(make_mlp, param), syncs, world.size());
    });
}

TEST(Wire, TiedFrozenUnusedAndTinyParametersToo) {
  struct Case {
    MakeModel make;
    const char* wrap;
  };
  const std::vector<Case> cases{{make_tied, "name:**"},
                                {make_frozen, "class:Block"},
                                {make_unused, "size:50"},
                                {make_twice, "class:Block"},
                                {make_tiny, "none"}};
  on_ranks([&](comm::ProcessGroup& world) {
    for (const auto& [make, wrap] : cases)
      for (const Syncs& syncs : {Syncs{true, true}, Syncs{false, true, true}}) {
        MicroJob job = job_of(make);
        job.wrap = wrap;
        expect_the_bits_of_full_precision(world, job, syncs, world.size());
      }
  });
}

// Shard groups are consecutive ranks, so that the tree over shards and then replicas is the tree over all ranks.
TEST(Wire, ReplicasContinueTheTree) {
  on_ranks(4, [&](comm::ProcessGroup& world) {
    for (const int shard_size : {1, 2, 4})
      for (const Syncs& syncs : {Syncs{true}, Syncs{true, true}})
        expect_the_bits_of_full_precision(world, job_of(make_mlp), syncs, shard_size);
  });
}

TEST(Wire, OnlySumsOfSeveralPassesAreSentInFullPrecision) {
  on_ranks([](comm::ProcessGroup& world) {
    if (world.size() == 1) return;  // nothing is sent
    TrafficByCall traffic;
    CountingGroup counting(device_world(world), traffic);
    const MicroJob job = job_of(make_mlp);
    TestModel model = prepared(job);
    comm::DeviceMesh mesh(world, counting, world.size());
    auto sharded = fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy(job.wrap), job.options);
    const int units = static_cast<int>(sharded->runtime().units().size());
    const auto run = [&](bool sync) {
      traffic.clear();
      sharded->set_requires_gradient_sync(sync);
      sharded->run([&] { backward(model, job, 0, world.rank()); });
      return std::pair(traffic["all_to_all"].calls, traffic["reduce_scatter"].calls);
    };
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(run(true), std::pair(units, 0));
      EXPECT_EQ(run(false), std::pair(0, 0));
      EXPECT_EQ(run(true), std::pair(0, units));
      EXPECT_EQ(run(true), std::pair(units, 0));
      sharded->zero_grad();
    }
  });
}

}  // namespace
}  // namespace shoal::testing
