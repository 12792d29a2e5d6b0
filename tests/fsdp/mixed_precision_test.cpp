// 16-bit parameters with full-precision masters: equal to a loop that does the same by hand, and what is sent, kept and
// reported is of the type that was asked for.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "fsdp/counting_group.h"
#include "fsdp/micro_steps.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using fsdp::Strategy;

struct ByHand {
  Weights gradients, masters;
  double terms = 0;  // sum over the micro-batches of the largest gradient of each
};

using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

// The trained parameters, each once, rounded to `param`; the module's own values become the masters.
Parameters round_parameters(torch::nn::Module& module, at::ScalarType param, Weights& masters) {
  Parameters trained;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    masters[item.key()] = item.value().detach().clone();
    if (item.value().requires_grad()) trained.emplace_back(item.key(), item.value());
    item.value().set_data(item.value().to(param));
  }
  return trained;
}

// Adds the gradient of micro-batch `k`, rounded to `reduce`, to `sums` in fp32. The largest element of it.
double add_gradient(TestModel& model, const Parameters& trained, const MicroJob& job, int k, at::ScalarType reduce,
                    Weights& sums) {
  for (const auto& [name, p] : trained) p.mutable_grad().reset();
  {
    const torch::AutoGradMode with_grad(true);
    backward(model, job, 0, k);
  }
  double largest = 0;
  for (const auto& [name, p] : trained) {
    if (!p.grad().defined() || p.numel() == 0) continue;
    sums[name] += p.grad().to(reduce).to(at::kFloat);
    largest = std::max(largest, p.grad().to(at::kDouble).abs().max().item<double>());
  }
  return largest;
}

// One step of SGD in plain LibTorch, as `ranks` ranks do it together: gradients of 16-bit copies, added up over the
// ranks in fp32 and rounded to the type of the reduction, then added up over the micro-steps in fp32.
ByHand by_hand(const MicroJob& job, int ranks) {
  const torch::NoGradGuard no_grad;
  TestModel model = prepared(job);
  const fsdp::MixedPrecisionPolicy& types = job.options.mixed_precision;
  const at::ScalarType reduce = types.reduce_dtype.value_or(at::kFloat);
  ByHand result;
  const Parameters trained = round_parameters(*model.module, *types.param_dtype, result.masters);
  for (const auto& item : model.module->named_buffers()) {
    if (types.buffer_dtype) item.value().set_data(item.value().to(*types.buffer_dtype));
    result.masters[item.key()] = item.value();
  }
  for (const auto& [name, p] : trained) result.gradients[name] = at::zeros_like(p, at::kFloat);
  for (int first = 0; first < job.micro_batches; first += ranks) {
    Weights over_ranks;
    for (const auto& [name, p] : trained) over_ranks[name] = at::zeros_like(p, at::kFloat);
    for (int k = first; k < std::min(first + ranks, job.micro_batches); ++k)
      result.terms += add_gradient(model, trained, job, k, reduce, over_ranks);
    for (const auto& [name, p] : trained) result.gradients[name] += over_ranks[name].to(reduce).to(at::kFloat);
  }
  for (const auto& [name, p] : trained)
    result.masters[name] -= result.gradients[name] * (job.lr / (3.0 * job.micro_batches));
  for (Weights* weights : {&result.gradients, &result.masters})
    for (auto& [name, value] : *weights) value = value.cpu();
  return result;
}

// Two sums of n terms in any order differ by at most 2 (n - 1) u times the sum of the terms' sizes, u being half an
// epsilon of the type that the sums are rounded to.
void expect_as_by_hand(const MicroResult& result, const ByHand& expected, const MicroJob& job) {
  const auto reduce = job.options.mixed_precision.reduce_dtype.value_or(at::kFloat);
  const double half = reduce == at::kFloat ? 0x1p-24 : reduce == at::kHalf ? 0x1p-11 : 0x1p-8 / 2;
  const double bound = 2 * job.micro_batches * half * expected.terms;
  EXPECT_LE(largest_difference(expected.gradients, result.gradients), bound);
  // The step adds at most one rounding of each weight.
  const double weights = bound * job.lr / (3.0 * job.micro_batches) + 0x1p-23 * largest_value(expected.masters);
  EXPECT_LE(largest_difference(expected.masters, result.masters), weights);
}

TEST(MixedPrecision, EqualsALoopByHand) {
  for (const auto param : {at::kBFloat16, at::kHalf})
    for (const std::optional<at::ScalarType> reduce : {std::optional<at::ScalarType>(), {at::kFloat}, {param}})
      on_ranks([&](comm::ProcessGroup& world) {
        const MicroJob job{.micro_batches = 7, .steps = 1, .options = policy(param, reduce)};
        SCOPED_TRACE(fmt::format("{} ranks, {}, {}", world.size(), c10::toString(param), reduce.has_value()));
        expect_as_by_hand(train_micro(world, job), by_hand(job, world.size()), job);
      });
}

TEST(MixedPrecision, EveryModelAndStrategyEqualsALoopByHand) {
  struct Case {
    const char* name;
    MakeModel make;
    const char* wrap;
  };
  const std::vector<Case> models{{"tied", make_tied, "name:**"},     {"frozen", make_frozen, "class:Block"},
                                 {"unused", make_unused, "size:50"}, {"twice", make_twice, "class:Block"},
                                 {"tiny", make_tiny, "none"},        {"conv", make_conv, "name:*"}};
  for (const auto& [name, make, wrap] : models)
    on_ranks([&, name = name, make = make, wrap = wrap](comm::ProcessGroup& world) {
      for (const Strategy strategy : {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard}) {
        MicroJob job{.make = make, .steps = 1, .strategy = strategy, .wrap = wrap};
        job.options = policy(at::kBFloat16, at::kFloat, at::kBFloat16);
        SCOPED_TRACE(fmt::format("{}, {} ranks, {}", name, world.size(), fsdp::name_of(strategy)));
        expect_as_by_hand(train_micro(world, job), by_hand(job, world.size()), job);
      }
    });
}

TEST(MixedPrecision, HybridMeshesEqualALoopByHand) {
  on_ranks(4, [&](comm::ProcessGroup& world) {
    for (const int shard : {1, 2, 4}) {
      MicroJob job{.steps = 1, .strategy = Strategy::hybrid_shard, .shard_size = shard};
      job.options = policy(at::kBFloat16, at::kFloat);
      SCOPED_TRACE(shard);
      expect_as_by_hand(train_micro(world, job), by_hand(job, 4), job);
    }
  });
}

// A shard group's messages, once a unit each: parameters in their type, and gradients too, whether they are summed in
// that or in a wider one.
TEST(MixedPrecision, BytesSentAreThoseOfTheTypesAskedFor) {
  on_ranks([](comm::ProcessGroup& world) {
    if (world.size() == 1) return;  // nothing is sent
    for (const auto reduce : {at::kFloat, at::kBFloat16}) {
      TrafficByCall traffic;
      CountingGroup counting(device_world(world), traffic);
      TestModel model = prepared({});
      comm::DeviceMesh mesh(world, counting, world.size());
      fsdp::FullyShardOptions options = policy(at::kBFloat16, reduce);
      options.reshard_after_forward = false;
      auto sharded = fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy("class:Block"), options);
      std::int64_t shard_numel = 0;
      sharded->runtime().for_each_flat(
          [&](const fsdp::FlatParameter& flat) { shard_numel += flat.layout().shard_numel(); });
      traffic.clear();
      sharded->run([&] { backward(model, {}, 0, world.rank() % 4); });
      const int units = static_cast<int>(sharded->runtime().units().size());
      EXPECT_EQ(traffic["all_gather"].calls, units);
      EXPECT_EQ(traffic["all_gather"].bytes, 2 * shard_numel);
      const char* const call = reduce == at::kFloat ? "all_to_all" : "reduce_scatter";
      const char* const other = reduce == at::kFloat ? "reduce_scatter" : "all_to_all";
      EXPECT_EQ(traffic[call].calls, units);
      EXPECT_EQ(traffic[call].bytes, 2 * shard_numel);
      EXPECT_EQ(traffic[other].calls, 0);
      EXPECT_EQ(traffic["all_reduce"].calls, 0);
    }
  });
}

TEST(MixedPrecision, AnOverflowOfHalfPrecisionIsANormThatIsNotFinite) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const std::optional<at::ScalarType> reduce : {std::optional<at::ScalarType>(), {at::kHalf}}) {
      TestModel model = prepared({});
      comm::DeviceMesh mesh(world, device_world(world), world.size());
      auto sharded =
          fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy("class:Block"), policy(at::kHalf, reduce));
      const auto step = [&](double loss_scale) {
        sharded->zero_grad();
        sharded->run([&] {
          const at::Tensor x = at::ones({2, 6}, at::TensorOptions(test_device()).dtype(at::kHalf));
          (model.forward(x).to(at::kFloat).sum() * loss_scale).backward();
        });
        return sharded->grad_norm(1.0 / loss_scale);
      };
      EXPECT_TRUE(std::isfinite(step(64)));
      EXPECT_FALSE(std::isfinite(step(1e6)));
      EXPECT_TRUE(std::isfinite(step(64)));  // nothing of it is left
    }
  });
}

// On the CPU to the bit, since nothing is moved. Beside a GPU the optimizer runs on another processor, whose roundings
// Adam divides by gradients that may be small.
TEST(MixedPrecision, OffloadChangesNothingButThePlace) {
  const double bound = test_device().is_cpu() ? 0 : 1e-4;
  on_ranks([&](comm::ProcessGroup& world) {
    for (const Strategy strategy : {Strategy::full_shard, Strategy::no_shard}) {
      MicroJob job{.optimizer = "adamw", .strategy = strategy, .options = policy(at::kBFloat16, at::kFloat)};
      const MicroResult without = train_micro(world, job);
      for (const auto offload : {fsdp::Offload::optimizer, fsdp::Offload::params}) {
        job.options.offload = offload;
        const MicroResult with = train_micro(world, job);
        EXPECT_LE(largest_difference(without.masters, with.masters), bound);
        for (std::size_t i = 0; i < with.norms.size(); ++i)
          EXPECT_NEAR(without.norms[i], with.norms[i], bound * without.norms[i]);
      }
    }
  });
}

}  // namespace
}  // namespace shoal::testing
