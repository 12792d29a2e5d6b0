// Activation offload changes no bit, and what is on the host is no longer on the device.
#include "fsdp/saved_offload.h"

#include <c10/core/Allocator.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "fsdp/recompute_models.h"
#include "fsdp/runtime.h"
#include "support/live_bytes.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

struct Result {
  std::vector<double> losses, norms;
  Weights weights;
};

at::TensorOptions on_device(at::ScalarType dtype = at::kDouble) {
  return at::TensorOptions(test_device()).dtype(dtype);
}

// Threads share LibTorch's generators: there, only one rank can draw the same numbers twice.
bool has_own_generators(const comm::ProcessGroup& world) {
  return world.size() == 1 || std::string(world.backend()) != "fake";
}

// Offloads what is small in these models, too.
fsdp::SavedOffload* offload_everything(const Sharded& sharded) {
  fsdp::SavedOffload* const offload = sharded.fsdp->runtime().saved_offload();
  if (offload) offload->set_least_bytes(1);
  return offload;
}

// Steps of two run()s each, with an evaluation in between.
Result train(comm::ProcessGroup& world, const MakeModel& make, const std::string& wrap, const std::string& policy,
             bool offload) {
  Sharded s = shard(world, make, wrap, {.activation_checkpoint = policy, .activation_offload = offload});
  const fsdp::SavedOffload* const saved = offload_everything(s);
  fsdp::ShardedOptimizer optimizer(*s.fsdp, optim::make_optimizer({.name = "sgd"}));
  Result result;
  for (int step = 0; step < 2; ++step) {
    for (int part = 0; part < 2; ++part) {
      const auto [x, y] = samples({.make = make}, step, 3 * (world.rank() % 2) + 6 * part, 3);
      torch::manual_seed(static_cast<std::uint64_t>(100 * step + 10 * part + world.rank()));
      s.fsdp->run([&, x = x, y = y] {
        const at::Tensor loss = (s.model.forward(x) - y).square().sum();
        loss.backward();
        result.losses.push_back(loss.item<double>());
      });
      const torch::NoGradGuard no_grad;
      s.fsdp->run([&, x = x] { result.losses.push_back(s.model.forward(x).sum().item<double>()); });
    }
    result.norms.push_back(s.fsdp->grad_norm(1.0));
    optimizer.step(0.05, 1.0);
  }
  EXPECT_TRUE(!saved || saved->offloaded_bytes() > 0) << wrap << ", " << policy;
  result.weights = whole_weights(*s.fsdp, *s.model.module);
  return result;
}

void expect_no_difference(comm::ProcessGroup& world, const MakeModel& make, const std::string& wrap) {
  if (!has_own_generators(world)) torch::manual_seed(1);
  for (const char* const policy : {"none", "every:2", "full", "selective"}) {
    SCOPED_TRACE(fmt::format("{} ranks, wrap {}, {}", world.size(), wrap, policy));
    const Result without = train(world, make, wrap, policy, false), with = train(world, make, wrap, policy, true);
    EXPECT_EQ(without.losses, with.losses);
    EXPECT_EQ(without.norms, with.norms);
    ASSERT_EQ(without.weights.size(), with.weights.size());
    for (const auto& [name, weight] : without.weights) EXPECT_TRUE(weight.equal(with.weights.at(name))) << name;
  }
}

TEST(SavedOffload, EveryModelAndPolicyToTheBit) {
  const std::vector<std::pair<MakeModel, std::string>> models{
      {make_mlp, "class:Block"},         {make_mlp, "none"},           {make_mlp, "name:**"},
      {make_tied, "class:Block"},        {make_frozen, "class:Block"}, {make_unused, "class:Block"},
      {make_twice, "class:Block"},       {make_conv, "name:*"},        {make_mixed_dtypes, "class:Block"},
      {make_nested, "class:Outer,Block"}};
  on_ranks([&](comm::ProcessGroup& world) {
    for (const auto& [make, wrap] : models) expect_no_difference(world, make, wrap);
  });
}

TEST(SavedOffload, DropoutListsViewsAndInPlaceOperatorsToTheBit) {
  on_ranks([](comm::ProcessGroup& world) {
    if (!has_own_generators(world)) return;
    expect_no_difference(world, make_attention, "class:Attention");
    expect_no_difference(world, make_batch_norm, "class:Normed");
  });
}

TEST(SavedOffload, SeveralPassesInOneRun) {
  on_ranks([](comm::ProcessGroup& world) {
    std::vector<std::vector<double>> norms;
    for (const bool on : {false, true}) {
      Sharded s = shard(world, make_mlp, "class:Block", {.activation_offload = on});
      offload_everything(s);
      const auto [x, y] = samples({}, 0, 0, 4);
      std::vector<double> sums;
      s.fsdp->run([&, x = x, y = y] {
        for (const at::Tensor& input : {x, y.matmul(at::ones({5, 6}, on_device()))})
          s.model.forward(input).sum().backward();
        const at::Tensor first = s.model.forward(x), second = s.model.forward(2 * x);  // both before backward
        (first * second).sum().backward();
      });
      norms.push_back({s.fsdp->grad_norm(1.0)});
    }
    EXPECT_EQ(norms[0], norms[1]);
  });
}

constexpr std::int64_t kRows = 20'000, kRow = kRows * 8;

// Alive between forward and backward, host buffers not counted: in a second step these are there already.
std::int64_t live_after_forward(comm::ProcessGroup& world, const std::string& policy, bool offload) {
  Sharded s = shard(world, make_mlp, "class:Block", {.activation_checkpoint = policy, .activation_offload = offload});
  const at::Tensor x = at::ones({kRows, 6}, at::kDouble);
  std::int64_t live = 0;
  for (int step = 0; step < 2; ++step) {
    LiveBytes bytes;
    s.fsdp->run([&] {
      const at::Tensor loss = s.model.forward(x).sum();
      live = bytes.live();
      loss.backward();
    });
    s.fsdp->zero_grad();
    EXPECT_TRUE(step == 0 || bytes.live() < kRow) << bytes.live();
  }
  return live;
}

TEST(SavedOffload, TheDeviceHoldsTwoUnitsAtMost) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "counts the CPU's memory";
  on_ranks(1, [](comm::ProcessGroup& world) {
    const std::int64_t without = live_after_forward(world, "none", false);
    const std::int64_t with = live_after_forward(world, "none", true);
    // What a Block of width 7 saves: its input, the norm's result, 14 of up and 14 of gelu, each but the numbers of the
    // norm (two a row) larger than 1 MiB only from 6.6 numbers a row on. The third Block and the root's norm and head
    // are still on the device.
    EXPECT_NEAR(static_cast<double>(without - with), 2.0 * (7 + 7 + 14 + 14) * kRow, 8.0 * kRow);
    const std::int64_t full = live_after_forward(world, "full", false);
    EXPECT_NEAR(static_cast<double>(full - live_after_forward(world, "full", true)), 2.0 * 7 * kRow, 2.0 * kRow);
  });
}

TEST(SavedOffload, TakesEachMemoryOnceAndNothingFromOutside) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    const MakeModel make = [] {
      auto module = std::make_shared<torch::nn::LinearImpl>(6, 8);
      return TestModel{module, [module](const at::Tensor& x) { return module->forward(x); }};
    };
    Sharded s = shard(world, make, "none", {.activation_offload = true});
    const fsdp::SavedOffload& offload = *offload_everything(s);
    const at::Tensor x = at::randn({50, 6}, on_device(at::kFloat)), table = at::randn({50, 8}, on_device(at::kFloat));
    s.fsdp->run([&] {
      const at::Tensor h = s.model.forward(x).relu();  // x, from outside; the weight; h, by relu and three times below
      const at::Tensor a = h * table, b = h * h;       // table, from outside
      (a.sum() + b.sum() + h.t().narrow(0, 0, 3).square().sum()).backward();
    });
    EXPECT_EQ(offload.offloaded_bytes(), 50 * 8 * 4);
    EXPECT_EQ(offload.host_bytes(), 50 * 8 * 4);
  });
}

TEST(SavedOffload, InPlaceChangesAreDetectedAsAutogradDoes) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp, "class:Block", {.activation_offload = true});
    offload_everything(s);
    const at::Tensor x = at::ones({4, 6}, on_device());
    const auto run = [&](const std::function<void(at::Tensor&)>& change) {
      s.fsdp->run([&] {
        at::Tensor y = s.model.forward(x).exp();  // needs its result in backward
        change(y);
        y.sum().backward();
      });
    };
    try {
      run([](at::Tensor& y) { y.add_(1); });
      ADD_FAILURE() << "no error";
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find("changed in place"), std::string::npos) << error.what();
    }
    run([](at::Tensor& y) { y = y.clone().add_(1); });
    // Saved again after a change: the values of then.
    s.fsdp->zero_grad();
    std::vector<double> norms;
    for (const bool in_place : {false, true}) {
      s.fsdp->run([&] {
        const at::Tensor y = s.model.forward(x);
        at::Tensor z = y * 2;  // saves nothing of z
        in_place ? z.sigmoid_() : z = z.sigmoid();
        (z * z).sum().backward();
      });
      norms.push_back(s.fsdp->grad_norm(1.0));
      s.fsdp->zero_grad();
    }
    EXPECT_EQ(norms[0], norms[1]);
  });
}

TEST(SavedOffload, BuffersComeBackAfterExceptions) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp, "class:Block", {.activation_offload = true});
    const fsdp::SavedOffload& offload = *offload_everything(s);
    const auto [x, y] = samples({}, 0, 0, 4);
    const auto train = [&, x = x] { s.fsdp->run([&] { s.model.forward(x).sum().backward(); }); };
    train();
    const std::int64_t bytes = offload.host_bytes();
    EXPECT_GT(bytes, 0);
    for (int i = 0; i < 3; ++i)
      EXPECT_THROW(s.fsdp->run([&, x = x] {
        const at::Tensor kept = s.model.forward(x);
        throw std::runtime_error("the user's");
      }),
                   std::runtime_error);
    train();
    EXPECT_EQ(offload.host_bytes(), bytes);
  });
}

// A graph that lives on after run(): its tensors come from the host.
TEST(SavedOffload, AGraphMayOutliveTheModule) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    at::Tensor leaf = at::randn({30, 6}, on_device()).requires_grad_(), kept, expected;
    {
      Sharded s = shard(world, make_mlp, "class:Block", {.activation_offload = true});
      offload_everything(s);
      s.fsdp->run([&] {
        kept = (leaf * 2).exp().tanh().sum();
        s.model.forward(at::ones({4, 6}, on_device())).sum().backward();
      });
    }
    kept.backward();
    const at::Tensor given = leaf.grad().clone();
    leaf.mutable_grad().reset();
    (leaf * 2).exp().tanh().sum().backward();
    EXPECT_TRUE(given.equal(leaf.grad()));
  });
}

TEST(OffloadShelf, GroupsAreBroughtBackInReverseAndPartsOfLargeOnesToo) {
  const auto shelf = std::make_shared<fsdp::OffloadShelf>(test_device(), 10'000);
  std::vector<std::unique_ptr<fsdp::torch_internals::SavedTensor>> saved;
  std::vector<at::Tensor> values;
  for (int i = 0; i < 8; ++i) {
    values.push_back(at::randn({1000}, on_device(at::kFloat)));
    saved.push_back(shelf->put(values.back().narrow(0, 100, 500).view({50, 10}).t(), "h"));
    if (i % 3 == 2) shelf->next_group();
  }
  shelf->let_go();
  EXPECT_EQ(shelf->offloaded_bytes(), 8 * 4000);
  while (!saved.empty()) {
    EXPECT_TRUE(saved.back()->restore().equal(values.back().narrow(0, 100, 500).view({50, 10}).t()));
    saved.pop_back();
    values.pop_back();
  }
  const std::int64_t bytes = shelf->host_bytes();
  for (int i = 0; i < 8; ++i) saved.push_back(shelf->put(at::zeros({1000}, on_device(at::kFloat)), "h"));
  EXPECT_EQ(shelf->host_bytes(), bytes);  // the same buffers again
}

}  // namespace
}  // namespace shoal::testing
