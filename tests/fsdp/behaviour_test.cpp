// What the engine does beside training right: memory that comes and goes, errors by name, evaluation, exceptions.
#include <gtest/gtest.h>

#include "core/error.h"
#include "fsdp/harness.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

at::Tensor input() { return samples({.make = make_mlp}, 0, 0, 4).first; }

int units_with_memory(fsdp::FullyShardedModule& sharded) {
  int n = 0;
  for (const auto& unit : sharded.runtime().units()) n += unit->unsharded();
  return n;
}

template <typename ErrorType, typename F>
void expect_error(F&& body, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const ErrorType& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Behaviour, ParametersHaveMemoryOnlyWhileInUse) {
  on_ranks([](comm::ProcessGroup& world) {
    if (world.size() == 1) return;  // there everything is always whole
    Sharded s = shard(world, make_mlp);
    EXPECT_EQ(units_with_memory(*s.fsdp), 0);
    int most = 0;
    s.fsdp->run([&] {
      at::Tensor loss = s.model.forward(input()).sum();
      most = units_with_memory(*s.fsdp);
      loss.backward();
    });
    EXPECT_EQ(units_with_memory(*s.fsdp), 0);
    EXPECT_EQ(most, 2);  // after forward: the root, and the last Block used
  });
}

TEST(Behaviour, ShardGradOpKeepsUnitsFromForwardToBackward) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    fsdp::FullyShardOptions options;
    options.reshard_after_forward = false;
    Sharded s = shard(world, make_mlp, "class:Block", options);
    int after_forward = 0;
    s.fsdp->run([&] {
      at::Tensor loss = s.model.forward(input()).sum();
      after_forward = units_with_memory(*s.fsdp);
      loss.backward();
    });
    EXPECT_EQ(after_forward, 4);
    EXPECT_EQ(units_with_memory(*s.fsdp), 0);
  });
}

TEST(Behaviour, AfterTheFirstStepsNothingIsAllocated) {
  on_ranks(3, [](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_twice);
    fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = "sgd"}));
    const auto step = [&] {
      s.fsdp->run([&] { s.model.forward(input()).sum().backward(); });
      optimizer.step(0.1, 1.0);
      return s.fsdp->runtime().pool_bytes();
    };
    step();
    const std::int64_t second = (step(), step());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(step(), second);
  });
}

TEST(Behaviour, ReadingAShardedParameterIsAnErrorThatNamesTheUnit) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    const at::Tensor weight = s.model.module->named_parameters()["blocks.1.up.weight"];
    expect_error<c10::Error>([&] { (void)weight.sum(); }, {"blocks.1", "summon_full_params"});
    s.fsdp->summon_full_params([&] { EXPECT_NE(weight.sum().item<double>(), 0.0); });
    expect_error<c10::Error>([&] { (void)weight.sum(); }, {"blocks.1"});
  });
}

TEST(Behaviour, TwoModulesMayMeetInOneOperatorEachInItsRun) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    Sharded a = shard(world, make_mlp), b = shard(world, make_mlp);
    const at::Tensor of_a = a.model.module->named_parameters()["blocks.1.up.weight"];
    const at::Tensor of_b = b.model.module->named_parameters()["blocks.2.up.weight"];
    const double expected = (whole_weights(*a.fsdp, *a.model.module).at("blocks.1.up.weight") *
                             whole_weights(*b.fsdp, *b.model.module).at("blocks.2.up.weight"))
                                .sum()
                                .item<double>();
    a.fsdp->run([&] { b.fsdp->run([&] { EXPECT_DOUBLE_EQ((of_a * of_b).sum().item<double>(), expected); }); });
    expect_error<OptionError>([&] { a.fsdp->run([&] { (void)of_b.sum(); }); }, {"blocks.2", "its own", "run()"});
  });
}

TEST(Behaviour, BackwardOutsideOfRunIsAnError) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    expect_error<OptionError>([&] { s.model.forward(input()).sum().backward(); }, {"run()"});
  });
}

TEST(Behaviour, EvaluationEqualsThePlainModelAndLeavesNoGradient) {
  TestModel plain = make_mlp();
  fill_parameters(*plain.module);
  const at::Tensor expected = plain.forward(input()).detach();
  on_ranks([&](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    for (int pass = 0; pass < 3; ++pass) {
      const torch::NoGradGuard no_grad;
      at::Tensor output;
      s.fsdp->run([&] { output = s.model.forward(input()); });
      EXPECT_TRUE(torch::allclose(output, expected, 1e-12, 1e-12));
      EXPECT_EQ(s.fsdp->grad_norm(1.0), 0.0);
    }
    // Training after evaluation, and evaluation after training, each in its own order.
    s.fsdp->run([&] { s.model.forward(input()).sum().backward(); });
    EXPECT_GT(s.fsdp->grad_norm(1.0), 0.0);
    const torch::NoGradGuard no_grad;
    s.fsdp->run([&] { EXPECT_TRUE(torch::allclose(s.model.forward(input()), expected, 1e-12, 1e-12)); });
  });
}

TEST(Behaviour, AnExceptionInForwardOrBackwardLeavesAUsableModule) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    const auto step = [&] { s.fsdp->run([&] { s.model.forward(input()).sum().backward(); }); };
    step();
    const double norm = s.fsdp->grad_norm(1.0);
    s.fsdp->zero_grad();
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_THROW(s.fsdp->run([&] {
        const at::Tensor out = s.model.forward(input());
        throw std::runtime_error("in the middle");
      }),
                   std::runtime_error);
      EXPECT_THROW(s.fsdp->run([&] { (void)s.model.forward(at::zeros({4, 3}, at::kDouble)); }), c10::Error);
      EXPECT_THROW(s.fsdp->run([&] {
        at::Tensor out = s.model.forward(input());
        out.register_hook([](const at::Tensor& grad) -> at::Tensor {
          throw std::runtime_error("in backward" + std::to_string(grad.dim()));
        });
        out.sum().backward();
      }),
                   std::runtime_error);
      EXPECT_EQ(s.fsdp->grad_norm(1.0), 0.0);
      if (world.size() > 1) {
        EXPECT_EQ(units_with_memory(*s.fsdp), 0);
      }
      step();
      EXPECT_NEAR(s.fsdp->grad_norm(1.0), norm, 1e-12 * norm);
      s.fsdp->zero_grad();
    }
  });
}

TEST(Behaviour, RanksThatTakeDifferentPathsAreAnErrorWithBothNames) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    auto block = [&](int i) { return s.model.module->named_modules()["blocks." + std::to_string(i)]->as<Block>(); };
    // The first step of rank 1 uses the blocks in another order.
    expect_error<CommunicationError>(
        [&] {
          s.fsdp->run([&] {
            const at::Tensor x = at::ones({2, 7}, at::kDouble);
            const int first = world.rank() == 0 ? 0 : 2;
            (void)block(2 - first)->forward(block(first)->forward(x));
          });
        },
        {"different paths", "blocks.0", "blocks.2"});
  });
}

TEST(Behaviour, ARankThatSkipsAUnitLaterIsAnErrorNotAHang) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    world.set_timeout(std::chrono::milliseconds(300));
    Sharded s = shard(world, make_mlp);
    auto block = [&](int i) { return s.model.module->named_modules()["blocks." + std::to_string(i)]->as<Block>(); };
    const auto pass = [&](std::vector<int> blocks) {
      s.fsdp->run([&] {
        at::Tensor x = at::ones({2, 7}, at::kDouble);
        for (const int i : blocks) x = block(i)->forward(x);
      });
    };
    pass({0, 1, 2});
    pass({0, 1, 2});
    EXPECT_THROW(world.rank() == 0 ? pass({0, 1, 2}) : pass({0, 2}), CommunicationError);
    expect_error<CommunicationError>([&] { pass({0, 1, 2}); }, {"failed before"});
    // Messages of the failed pass are still on their way; the world may not be used after this.
  });
}

TEST(Behaviour, AllRanksMayTakeAnotherPathTogether) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    auto block = [&](int i) { return s.model.module->named_modules()["blocks." + std::to_string(i)]->as<Block>(); };
    const std::vector<std::vector<int>> paths{{0, 1, 2},    {0, 1, 2}, {0, 2}, {0, 2},
                                              {2, 1, 0, 1}, {0, 1, 2}, {1},    {0, 1, 2}};
    TestModel plain = make_mlp();
    fill_parameters(*plain.module);
    for (const auto& path : paths) {
      at::Tensor expected = at::ones({2, 7}, at::kDouble), x = expected;
      for (const int i : path)
        expected = plain.module->named_modules()["blocks." + std::to_string(i)]->as<Block>()->forward(expected);
      s.fsdp->run([&] {
        for (const int i : path) x = block(i)->forward(x);
        x.sum().backward();
      });
      EXPECT_TRUE(torch::allclose(x, expected, 1e-12, 1e-12));
    }
  });
}

TEST(Behaviour, DifferentModelsOnRanksAreNamed) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    expect_error<CommunicationError>([&] { shard(world, world.rank() == 0 ? make_mlp : make_frozen); },
                                     {"different models", "rank 1", "frozen"});
  });
}

TEST(Behaviour, EveryRankStartsFromRankZero) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s;
    s.model = make_conv();
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& p : s.model.module->parameters()) p.fill_(static_cast<double>(world.rank() + 1));
    for (const at::Tensor& b : s.model.module->buffers()) b.fill_(world.rank() + 3);
    s.mesh = std::make_unique<comm::DeviceMesh>(world, world, world.size());
    s.fsdp = fsdp::fully_shard(s.model.module, *s.mesh, *fsdp::parse_wrap_policy("name:fc"), {});
    for (const auto& [name, value] : whole_weights(*s.fsdp, *s.model.module)) {
      const bool buffer = name.find("running") != std::string::npos || name.find("num_batches") != std::string::npos;
      EXPECT_TRUE(value.to(at::kDouble).eq(buffer ? 3.0 : 1.0).all().item<bool>()) << name;
    }
  });
}

TEST(Behaviour, BuffersBecomeTheirMeanOrRankZeros) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_conv, "name:fc");
    for (const auto& item : s.model.module->named_buffers()) item.value().fill_(2 * world.rank() + 1);
    s.fsdp->sync_buffers();
    for (const auto& item : s.model.module->named_buffers()) {
      const double expected =
          item.value().is_floating_point() ? world.size() : 1.0;  // the mean of 1, 3, 5, … is their number
      EXPECT_TRUE(item.value().to(at::kDouble).eq(expected).all().item<bool>()) << item.key();
    }
  });
}

TEST(Behaviour, SummonedParametersCanBeWrittenBack) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    const auto scale = [&](double by) {
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& p : s.model.module->parameters()) p.mul_(by);
    };
    const Weights before = whole_weights(*s.fsdp, *s.model.module);
    s.fsdp->summon_full_params([&] { scale(2.0); }, true);
    for (const auto& [name, value] : whole_weights(*s.fsdp, *s.model.module))
      EXPECT_TRUE(value.equal(2.0 * before.at(name))) << name;
  });
}

TEST(Behaviour, AParameterWithAGradientOrSharedMemoryIsRefused) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    TestModel with_gradient = make_mlp();
    with_gradient.forward(input()).sum().backward();
    expect_error<OptionError>([&] { shard(world, [&] { return with_gradient; }); }, {"has a gradient"});
    TestModel views = make_mlp();
    const at::Tensor whole = at::ones({4}, at::kDouble);
    views.module->register_parameter("a", whole.narrow(0, 0, 2));
    views.module->register_parameter("b", whole.narrow(0, 2, 2));
    expect_error<OptionError>([&] { shard(world, [&] { return views; }); }, {"'a'", "'b'", "share memory"});
  });
}

}  // namespace
}  // namespace shoal::testing
