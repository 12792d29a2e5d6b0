// The norms' operators in a sharded model: their parameters are gathered in forward and in backward, and a replay of
// recomputed units changes no bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "fsdp/fully_shard.h"
#include "fused/norms_cases.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using at::Tensor;

constexpr std::int64_t kWidth = 7;
const auto kDouble = at::TensorOptions().dtype(at::kDouble);

// Takes and gives what is yet to be added: a residual stream and the branch beside it.
struct NormedBlockImpl : torch::nn::Module {
  NormedBlockImpl() {
    const auto parameter = [&](const char* name, at::IntArrayRef sizes) {
      return register_parameter(name, at::empty(sizes, kDouble));
    };
    scale = parameter("scale", {kWidth});
    shift = parameter("shift", {kWidth});
    mix = parameter("mix", {kWidth, kWidth});
    rms_scale = parameter("rms_scale", {kWidth});
  }

  NormOutputs forward(const NormOutputs& in) {
    const NormCase layer{.centred = true, .add = true}, rms{.centred = false, .add = false};
    const NormOutputs out = operator_norm(layer, {in.sum, in.normed, scale, shift});
    const Tensor mixed = at::gelu(at::linear(out.normed, mix));
    return {out.sum, operator_norm(rms, {mixed, {}, rms_scale, {}}).normed};
  }

  Tensor scale, shift, mix, rms_scale;
};
TORCH_MODULE(NormedBlock);

struct NormedStackImpl : torch::nn::Module {
  NormedStackImpl() {
    register_module("blocks", blocks);
    for (int i = 0; i < 3; ++i) blocks->push_back(NormedBlock());
    scale = register_parameter("scale", at::empty({kWidth}, kDouble));
  }

  Tensor loss(const Tensor& x) {
    NormOutputs state{x, x.sin()};
    for (const auto& block : *blocks) state = block->as<NormedBlock>()->forward(state);
    const NormCase rms{.centred = false, .add = true};
    return operator_norm(rms, {state.sum, state.normed, scale, {}}).normed.square().cos().sum();
  }

  torch::nn::ModuleList blocks;
  Tensor scale;
};
TORCH_MODULE(NormedStack);

NormedStack filled_stack() {
  NormedStack stack;
  std::uint64_t seed = 1;
  const torch::NoGradGuard no_grad;
  for (Tensor& parameter : stack->parameters()) {
    at::Generator generator = at::detail::createCPUGenerator(seed++);
    parameter.copy_(at::randn(parameter.sizes(), generator, kDouble));
  }
  return stack;
}

Tensor samples(int begin, int count) {
  at::Generator generator = at::detail::createCPUGenerator(99);
  return at::randn({10, kWidth}, generator, kDouble).slice(0, begin, begin + count).clone();
}

struct Result {
  double loss = 0, norm = 0;
  Tensor dx;
};

Result plain(const Tensor& samples_of_all) {
  NormedStack stack = filled_stack();
  const Tensor x = samples_of_all.clone().requires_grad_(), loss = stack->loss(x);
  loss.backward();
  Tensor squares = at::zeros({}, kDouble);
  for (const Tensor& parameter : stack->parameters()) squares += parameter.grad().square().sum();
  return {loss.item<double>(), squares.sqrt().item<double>(), x.grad()};
}

// The second of two passes, which follows the recorded order.
Result sharded(comm::ProcessGroup& world, const Tensor& own_samples, const std::string& policy) {
  NormedStack stack = filled_stack();
  comm::DeviceMesh mesh(world, world, world.size());
  fsdp::FullyShardOptions options;
  options.activation_checkpoint = policy;
  const auto whole = fsdp::fully_shard(stack.ptr(), mesh, *fsdp::parse_wrap_policy("class:NormedBlock"), options);
  Result result;
  for (int pass = 0; pass < 2; ++pass) {
    const Tensor x = own_samples.clone().requires_grad_();
    whole->zero_grad();
    whole->run([&] {
      const Tensor loss = stack->loss(x);
      loss.backward();
      result.loss = loss.item<double>();
    });
    result.norm = whole->grad_norm(1);
    result.dx = x.grad();
  }
  return result;
}

TEST(NormsInTheEngine, HaveTheGradientsOfThePlainModel) {
  const Result expected = plain(samples(0, 10));
  on_ranks([&](comm::ProcessGroup& world) {
    const int each = 10 / world.size(), begin = each * world.rank();
    const bool last = world.rank() + 1 == world.size();
    const Result got = sharded(world, samples(begin, last ? 10 - begin : each), "none");
    EXPECT_NEAR(got.norm, expected.norm, 1e-11 * expected.norm);
    EXPECT_TRUE(got.dx.allclose(expected.dx.slice(0, begin, begin + got.dx.size(0)), 1e-11, 1e-13));
  });
}

TEST(NormsInTheEngine, AreRecomputedToTheBit) {
  on_ranks(2, [&](comm::ProcessGroup& world) {
    const Tensor own = samples(5 * world.rank(), 5);
    const Result expected = sharded(world, own, "none");
    for (const char* const policy : {"full", "selective", "every:2"}) {
      SCOPED_TRACE(policy);
      const Result got = sharded(world, own, policy);
      EXPECT_EQ(got.loss, expected.loss);
      EXPECT_EQ(got.norm, expected.norm);
      EXPECT_TRUE(got.dx.equal(expected.dx));
    }
  });
}

}  // namespace
}  // namespace shoal::testing
