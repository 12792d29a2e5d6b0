// What a replay cannot get right is an error that names the unit, the operator and the remedy.
#include <gtest/gtest.h>

#include "core/error.h"
#include "fsdp/recompute_models.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using Body = std::function<at::Tensor(at::Tensor normed, at::Tensor input)>;

at::Tensor input() { return samples({.make = make_mlp}, 0, 0, 4).first; }

Sharded sharded(comm::ProcessGroup& world, const Body& body) {
  return shard(world, [&] { return make_with(body); }, "class:With", {.activation_checkpoint = "full"});
}

void expect_error(const std::function<void()>& body, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const OptionError& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\nlacks " << part;
  }
}

// A step with a With around `body` must fail, on every rank alike, and leave a usable module.
void expect_refused(const Body& body, const std::vector<std::string>& parts) {
  on_ranks([&](comm::ProcessGroup& world) {
    Sharded s = sharded(world, body);
    const auto step = [&] { s.fsdp->run([&] { s.model.forward(input()).square().sum().backward(); }); };
    expect_error(step, parts);
    expect_error(step, parts);
    const torch::NoGradGuard no_grad;
    s.fsdp->run([&] { (void)s.model.forward(input()); });
  });
}

TEST(RecomputeErrors, AnInputChangedInPlaceInsideTheUnit) {
  expect_refused([](at::Tensor normed, at::Tensor x) { return x.add_(normed.square()); },
                 {"blocks.0", "aten::add_.Tensor", "in place", "--activation-checkpoint none", "--wrap"});
  expect_refused([](at::Tensor normed, at::Tensor x) { return normed * x.narrow(1, 0, 2).mul_(2).sum(); },
                 {"blocks.0", "aten::mul_", "in place", "--activation-checkpoint none"});
}

TEST(RecomputeErrors, AnInputChangedInPlaceAfterTheUnit) {
  on_ranks([](comm::ProcessGroup& world) {
    at::Tensor seen;
    Sharded s = sharded(world, [&](at::Tensor normed, at::Tensor x) { return seen = x, normed.square().exp(); });
    expect_error(
        [&] {
          s.fsdp->run([&] {
            const at::Tensor y = s.model.forward(input());
            {
              const torch::NoGradGuard no_grad;
              seen.mul_(2);
            }
            y.sum().backward();
          });
        },
        {"blocks.0", "aten::layer_norm", "changed in place", "--activation-checkpoint none"});
  });
}

TEST(RecomputeErrors, WhatWasSavedChangedInPlaceAsWithoutRecomputation) {
  // Plain autograd refuses this as well.
  expect_refused(
      [](at::Tensor normed, const at::Tensor&) {
        at::Tensor y = normed.exp();
        const at::Tensor z = y.square();
        y.mul_(2);
        return z * y;
      },
      {"blocks.0", "changed in place"});
}

TEST(RecomputeErrors, AParameterWrittenInForward) {
  on_ranks([](comm::ProcessGroup& world) {
    at::Tensor weight;
    Sharded s = sharded(world, [&](at::Tensor normed, at::Tensor x) {
      const torch::NoGradGuard no_grad;
      weight.mul_(1);
      return normed + x;
    });
    weight = s.model.module->named_parameters()["blocks.0.norm.weight"];
    expect_error([&] { s.fsdp->run([&] { (void)s.model.forward(input()); }); },
                 {"blocks.0", "aten::mul_", "parameter"});
  });
}

TEST(RecomputeErrors, AnArgumentWithAStateOfItsOwn) {
  expect_refused(
      [](at::Tensor normed, const at::Tensor&) {
        at::Tensor other = at::zeros_like(normed);
        return normed.square() + other.set_(at::ones({4, 8}, at::kDouble).storage(), 0, {4, 8});
      },
      {"blocks.0", "aten::set_", "Storage", "--activation-checkpoint none"});
}

TEST(RecomputeErrors, ASecondBackwardPass) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = sharded(world, [](at::Tensor normed, at::Tensor x) { return x + normed.square().exp(); });
    expect_error(
        [&] {
          s.fsdp->run([&] {
            const at::Tensor loss = s.model.forward(input()).sum();
            loss.backward({}, /*retain_graph=*/true);
            loss.backward();
          });
        },
        {"blocks.0", "second time", "--activation-checkpoint none"});
  });
}

TEST(RecomputeErrors, AnExceptionInForwardOrReplayLeavesAUsableModule) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    bool fails = true;
    Sharded s = sharded(world, [&](at::Tensor normed, at::Tensor x) {
      if (fails) throw std::runtime_error("in the middle");
      return x + normed.square().exp();
    });
    const auto step = [&] { s.fsdp->run([&] { s.model.forward(input()).sum().backward(); }); };
    EXPECT_THROW(step(), std::runtime_error);
    fails = false;
    step();
    EXPECT_GT(s.fsdp->grad_norm(1.0), 0.0);
  });
}

TEST(RecomputeErrors, AnOperatorThatFailsAndIsReplacedIsNotReplayed) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    Sharded s = sharded(world, [](at::Tensor normed, at::Tensor x) {
      try {
        return normed.matmul(x);
      } catch (const c10::Error&) {
        return normed.square() + x;
      }
    });
    s.fsdp->run([&] { s.model.forward(input()).sum().backward(); });
    EXPECT_GT(s.fsdp->grad_norm(1.0), 0.0);
  });
}

}  // namespace
}  // namespace shoal::testing
