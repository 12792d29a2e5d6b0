// What the tensors of a sharded module are: types as asked for, masters with all the digits of the module's values.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "fsdp/micro_steps.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using fsdp::Strategy;

TEST(Dtypes, MastersAreTheModulesOwnValuesAndTensorsStayTheSame) {
  for (const auto module_dtype : {at::kFloat, at::kDouble})
    on_ranks([&](comm::ProcessGroup& world) {
      TestModel model = prepared({.dtype = module_dtype});
      Weights original;
      std::vector<const void*> tensors;
      for (const auto& item : model.module->named_parameters()) {
        original[item.key()] = item.value().detach().cpu().clone();
        tensors.push_back(item.value().unsafeGetTensorImpl());
      }
      comm::DeviceMesh mesh(world, device_world(world), world.size());
      auto sharded =
          fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy("class:Block"), policy(at::kBFloat16));
      expect_same_bits(original, whole_masters(world, *sharded));
      std::size_t i = 0;
      for (const auto& item : model.module->named_parameters()) {
        EXPECT_EQ(item.value().unsafeGetTensorImpl(), tensors[i++]) << item.key();
        EXPECT_EQ(item.value().scalar_type(), at::kBFloat16) << item.key();
        EXPECT_TRUE(item.value().requires_grad()) << item.key();
      }
      sharded->summon_full_params([&] {
        for (const auto& item : model.module->named_parameters())
          EXPECT_TRUE(item.value().equal(original.at(item.key()).to(item.value().device(), at::kBFloat16)))
              << item.key();
      });
      EXPECT_EQ(sharded->dtypes(), module_dtype == at::kFloat
                                       ? "parameters bfloat16, masters float32, gradients bfloat16 on the wire, summed "
                                         "in float32"
                                       : "parameters bfloat16, masters float64, gradients bfloat16 on the wire, summed "
                                         "in float32");
    });
}

TEST(Dtypes, BuffersAreCastOnceAndReported) {
  on_ranks([](comm::ProcessGroup& world) {
    TestModel model = prepared({.make = make_conv});
    const at::Tensor mean = model.module->named_buffers()["norm.running_mean"];
    const at::Tensor number = model.module->register_buffer("number", at::zeros({2}, at::kLong));
    mean.fill_(1.0 / 3);
    comm::DeviceMesh mesh(world, device_world(world), world.size());
    auto sharded = fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy("none"),
                                     policy(at::kHalf, at::kFloat, at::kBFloat16));
    EXPECT_EQ(mean.scalar_type(), at::kBFloat16);
    EXPECT_EQ(number.scalar_type(), at::kLong);
    EXPECT_TRUE(mean.eq(at::scalar_tensor(1.0 / 3, at::kBFloat16)).all().item<bool>());
    EXPECT_EQ(sharded->dtypes(),
              "parameters float16, masters float32, gradients float16 on the wire, summed in float32, "
              "buffers bfloat16");
  });
}

TEST(Dtypes, ModuleDtypesThatDifferKeepMastersThatDiffer) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mixed_dtypes, "class:Block", policy(at::kFloat));
    EXPECT_EQ(s.fsdp->dtypes(), "parameters float32, masters float32 and float64, gradients reduced in float32");
    TestModel plain = make_mixed_dtypes();
    fill_parameters(*plain.module);
    Weights original;
    for (const auto& item : plain.module->named_parameters()) original[item.key()] = item.value().detach();
    expect_same_bits(original, whole_masters(world, *s.fsdp));
  });
}

TEST(Dtypes, WritingBackKeepsTheDigitsOfWhatWasNotWritten) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const Strategy strategy : {Strategy::full_shard, Strategy::no_shard}) {
      TestModel model = prepared({});
      comm::DeviceMesh mesh(world, device_world(world), fsdp::shard_group_size(strategy, world.size(), 1, 0));
      auto sharded =
          fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy("class:Block"), policy(at::kBFloat16));
      Weights expected = whole_masters(world, *sharded);
      const std::string written = "blocks.1.up.weight";
      sharded->summon_full_params(
          [&] {
            const torch::NoGradGuard no_grad;
            model.module->named_parameters()[written].mul_(2);
          },
          true);
      expected[written] = expected[written].to(at::kBFloat16).mul(2).to(at::kFloat);
      expect_same_bits(expected, whole_masters(world, *sharded));
    }
  });
}

TEST(Dtypes, TypesThatNobodyTrainsInAreRefused) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    const auto message = [&](fsdp::FullyShardOptions options) -> std::string {
      try {
        shard(world, make_mlp, "none", options);
      } catch (const OptionError& error) {
        return error.what();
      }
      return "no error";
    };
    EXPECT_NE(message(policy(at::kLong)).find("--param-dtype cannot be Long"), std::string::npos);
    EXPECT_NE(message(policy({}, at::kFloat8_e4m3fn)).find("--reduce-dtype cannot be"), std::string::npos);
    EXPECT_NE(message(policy({}, {}, at::kInt)).find("--buffer-dtype cannot be Int"), std::string::npos);
    fsdp::FullyShardOptions exact = policy(at::kBFloat16, at::kBFloat16);
    exact.deterministic = true;
    EXPECT_NE(message(exact).find("take --reduce-dtype fp32"), std::string::npos);
  });
}

TEST(Dtypes, RanksWithDifferentPoliciesAreNamed) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    try {
      shard(world, make_mlp, "none", policy(world.rank() == 0 ? at::kBFloat16 : at::kHalf));
      ADD_FAILURE() << "no error";
    } catch (const CommunicationError& error) {
      EXPECT_NE(std::string(error.what()).find("different models or options"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("Half"), std::string::npos) << error.what();
    }
  });
}

TEST(Dtypes, WithoutSyncingEachRankKeepsItsOwnValues) {
  on_ranks([](comm::ProcessGroup& world) {
    TestModel model = prepared({});
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& p : model.module->parameters()) p.fill_(world.rank() + 1);
    comm::DeviceMesh mesh(world, device_world(world), world.size());
    fsdp::FullyShardOptions options = policy(at::kBFloat16);
    options.sync_module_states = false;
    auto sharded = fsdp::fully_shard(model.module, mesh, *fsdp::parse_wrap_policy("class:Block"), options);
    sharded->runtime().for_each_flat([&](const fsdp::FlatParameter& flat) {
      const std::int64_t begin = flat.layout().shard(world.rank()).begin;
      const std::int64_t mine = std::clamp<std::int64_t>(flat.layout().numel() - begin, 0, flat.layout().shard_numel());
      EXPECT_TRUE(flat.master().narrow(0, 0, mine).eq(world.rank() + 1).all().item<bool>());
      EXPECT_TRUE(flat.master().narrow(0, mine, flat.master().numel() - mine).eq(0).all().item<bool>());
    });
  });
}

}  // namespace
}  // namespace shoal::testing
