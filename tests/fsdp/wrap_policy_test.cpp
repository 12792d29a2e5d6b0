#include "fsdp/wrap_policy.h"

#include <gtest/gtest.h>

#include "comm/fake_process_group.h"
#include "core/error.h"
#include "fsdp/harness.h"
#include "models/mnist_net.h"
#include "models/registry.h"

namespace shoal::testing {
namespace {

std::vector<std::string> selected(torch::nn::Module& module, const std::string& policy) {
  std::vector<std::string> names;
  for (const fsdp::ModuleUnit& unit : fsdp::parse_wrap_policy(policy)->select(module)) names.push_back(unit.fqn);
  return names;
}

using Names = std::vector<std::string>;

TEST(WrapPolicy, TheTutorialsNetWithSize20000WrapsFc1Alone) {
  const auto model = models::make_mnist_net(1);
  EXPECT_EQ(selected(*model->module(), "size:20000"), Names({"fc1"}));
  EXPECT_EQ(selected(*model->module(), "size:18000"), Names({"conv2", "fc1"}));
  EXPECT_EQ(selected(*model->module(), "size:2000000"), Names());
}

TEST(WrapPolicy, SizeGoesBottomUpAndCountsWhatIsNotWrappedYet) {
  // A Block has 14 + 112 + 105 = 231 parameters, `up` 112, `down` 105; the whole model 49 + 3*231 + 14 + 40 = 796.
  const TestModel mlp = make_mlp();
  EXPECT_EQ(selected(*mlp.module, "size:200"), Names({"blocks.0", "blocks.1", "blocks.2"}));  // the list itself never
  EXPECT_EQ(selected(*mlp.module, "size:110"),
            Names({"blocks.0", "blocks.0.up", "blocks.1", "blocks.1.up", "blocks.2", "blocks.2.up"}));
  EXPECT_EQ(selected(*mlp.module, "size:105"),
            Names({"blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "blocks.2.up", "blocks.2.down"}));
}

TEST(WrapPolicy, ClassNamesMatchWithAndWithoutNamespaceAndImpl) {
  const TestModel mlp = make_mlp();
  const Names blocks({"blocks.0", "blocks.1", "blocks.2"});
  EXPECT_EQ(selected(*mlp.module, "class:Block"), blocks);
  EXPECT_EQ(selected(*mlp.module, "class:BlockImpl"), blocks);
  EXPECT_EQ(selected(*mlp.module, "class:shoal::testing::Block"), blocks);
  EXPECT_EQ(selected(*mlp.module, "class:LayerNorm").size(), 4u);
  EXPECT_THROW(selected(*mlp.module, "class:lock"), OptionError);
  EXPECT_THROW(selected(*mlp.module, "class:Block,Nothing"), OptionError);
}

TEST(WrapPolicy, NamePatternsKeepToOnePartUnlessToldOtherwise) {
  const TestModel mlp = make_mlp();
  EXPECT_EQ(selected(*mlp.module, "name:blocks.*"), Names({"blocks.0", "blocks.1", "blocks.2"}));
  EXPECT_EQ(selected(*mlp.module, "name:blocks.?.up"), Names({"blocks.0.up", "blocks.1.up", "blocks.2.up"}));
  EXPECT_EQ(selected(*mlp.module, "name:**.down"), Names({"blocks.0.down", "blocks.1.down", "blocks.2.down"}));
  EXPECT_EQ(selected(*mlp.module, "name:blocks.1,**.down,blocks.1.*"),
            Names({"blocks.0.down", "blocks.1", "blocks.1.norm", "blocks.1.up", "blocks.1.down", "blocks.2.down"}));
  EXPECT_THROW(selected(*mlp.module, "name:transformer.*"), OptionError);
  EXPECT_THROW(selected(*mlp.module, "name:blocks.1,transformer.*"), OptionError);
}

TEST(WrapPolicy, RestTakesLargeModulesThatAreLeftToTheRoot) {
  // Without Blocks: embed 49 parameters, norm 14, head 40.
  const TestModel mlp = make_mlp();
  EXPECT_EQ(selected(*mlp.module, "class:Block+rest:40"), Names({"embed", "blocks.0", "blocks.1", "blocks.2", "head"}));
  EXPECT_EQ(selected(*mlp.module, "class:Block+rest:41"), Names({"embed", "blocks.0", "blocks.1", "blocks.2"}));
  EXPECT_EQ(selected(*mlp.module, "class:Block+rest:50"), selected(*mlp.module, "class:Block"));
  EXPECT_EQ(selected(*mlp.module, "none+rest:105"),
            Names({"blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "blocks.2.up", "blocks.2.down"}));
  EXPECT_EQ(fsdp::parse_wrap_policy("class:Block+rest:40")->text(), "class:Block+rest:40");
  for (const fsdp::ModuleUnit& unit : fsdp::parse_wrap_policy("class:Block+rest:40")->select(*mlp.module))
    EXPECT_EQ(unit.recomputable, unit.fqn.starts_with("blocks.")) << unit.fqn;
  // The weight of `embed` stands in `inner` as well.
  EXPECT_EQ(selected(*make_tied().module, "class:Block+rest:30"), Names({"block", "inner", "head"}));
}

TEST(WrapPolicy, BuiltinModelsHaveEmbeddingAndHeadAsUnitsUnlessTheyAreTied) {
  const auto units_of = [](const char* name, bool untied) {
    const models::ModelEntry& entry = models::find_model(name);
    const auto model =
        entry.make(models::complete(entry, {.layers = 1, .heads = 4, .hidden_size = 256, .untied_head = untied}));
    return selected(*model->module(), entry.defaults.wrap);
  };
  EXPECT_EQ(units_of("gpt2-tiny", false), Names({"transformer.h.0"}));
  EXPECT_EQ(units_of("gpt2-tiny", true), Names({"transformer.wte", "transformer.h.0", "lm_head"}));
  EXPECT_EQ(units_of("llama-tiny", false), Names({"model.layers.0"}));
  EXPECT_EQ(units_of("llama-tiny", true), Names({"model.embed_tokens", "model.layers.0", "lm_head"}));
}

TEST(WrapPolicy, ABadTextNamesTheFlag) {
  for (const char* text : {"", "size", "size:", "size:0", "size:-5", "size:12k", "class:", "class:,", "name:", "name:,",
                           "auto", "size:1:2", "+rest:5", "class:Block+rest:0", "none+rest:5+rest:6"}) {
    try {
      fsdp::parse_wrap_policy(text);
      ADD_FAILURE() << "'" << text << "' was taken";
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find("--wrap"), std::string::npos) << error.what();
    }
  }
}

TEST(WrapPolicy, ThePrintedTreeShowsUnitsAndTheirSizes) {
  comm::FakeWorld(2).run([](comm::ProcessGroup& world) {
    const auto model = models::make_mnist_net(1);
    comm::DeviceMesh mesh(world, world, 2);
    const auto sharded = fsdp::fully_shard(model->module(), mesh, *fsdp::parse_wrap_policy("size:20000"), {});
    const std::string text = sharded->print();
    EXPECT_NE(text.find("(fc1): Linear  [FSDP unit 1: 1179776 parameters]"), std::string::npos) << text;
    EXPECT_NE(text.find("[FSDP unit 0: 20106 parameters]"), std::string::npos) << text;
    EXPECT_NE(text.find("2 FSDP units by --wrap size:20000, 1199882 parameters, mesh 1 x 2"), std::string::npos)
        << text;
  });
}

TEST(Strategy, NamesAndAliases) {
  EXPECT_EQ(fsdp::parse_strategy("FULL_SHARD"), fsdp::Strategy::full_shard);
  EXPECT_EQ(fsdp::parse_strategy("zero3"), fsdp::Strategy::full_shard);
  EXPECT_EQ(fsdp::parse_strategy("zero2"), fsdp::Strategy::shard_grad_op);
  EXPECT_STREQ(fsdp::name_of(fsdp::Strategy::no_shard), "no_shard");
  EXPECT_THROW(fsdp::parse_strategy("ddp"), OptionError);
  EXPECT_EQ(fsdp::shard_group_size(fsdp::Strategy::full_shard, 8, 4, 0), 8);
  EXPECT_EQ(fsdp::shard_group_size(fsdp::Strategy::hybrid_shard, 8, 4, 0), 4);
  EXPECT_EQ(fsdp::shard_group_size(fsdp::Strategy::hybrid_shard, 8, 4, 2), 2);
  EXPECT_EQ(fsdp::shard_group_size(fsdp::Strategy::no_shard, 8, 4, 0), 1);
}

}  // namespace
}  // namespace shoal::testing
