// Restoring into a model that differs in names, as far as the user allows it.
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/checkpointer.h"
#include "checkpoint/match_rules.h"
#include "checkpoint/sample_state.h"
#include "comm/fake_process_group.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

using comm::FakeWorld;
using comm::ProcessGroup;
using testing::SampleTensor;
using testing::TemporaryDirectory;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

const std::vector<SampleTensor> kSaved{{"model/encoder.0.w", DType::float32, {5, 7}, "u"},
                                       {"model/encoder.1.w", DType::float32, {5, 7}, "u"},
                                       {"model/head", DType::float32, {11}, "u"},
                                       {"optimizer/exp_avg/encoder.0.w", DType::float32, {5, 7}, "m"},
                                       {"optimizer/exp_avg/encoder.1.w", DType::float32, {5, 7}, "m"},
                                       {"optimizer/exp_avg/head", DType::float32, {11}, "m"}};

TEST(MatchRules, RenamingByNameAndByPattern) {
  const MatchRules rules = MatchRules::parse({}, {}, {"a.b=x", "h.*.w=blocks.*.weight", "enc.**=back.**", "a.*=y.*"});
  EXPECT_EQ(rules.renamed("a.b"), "x");
  EXPECT_EQ(rules.renamed("a.c"), "y.c");
  EXPECT_EQ(rules.renamed("h.12.w"), "blocks.12.weight");
  EXPECT_EQ(rules.renamed("h.1.2.w"), "h.1.2.w") << "'*' stays within a part";
  EXPECT_EQ(rules.renamed("enc.1.attn.w"), "back.1.attn.w");
  EXPECT_EQ(rules.renamed("enc"), "enc");
  for (const char* wrong :
       {"", "=", "a", "a=", "=b", "a=b=c", "a.*=b", "a=b.*", "a.*=b.**", "*.*=*", "a.*.*=b.*.*", "?=b"})
    EXPECT_THROW(MatchRules::parse({}, {}, {wrong}), OptionError) << wrong;
}

// What three ranks get of what two saved, in whole tensors' order of `model`.
void restore(const std::vector<SampleTensor>& model, const MatchRules& rules,
             const std::function<void(const Restored&, const StateDict&, int rank)>& check) {
  const TemporaryDirectory directory;
  testing::write_sample(directory.path(), 1, 2, 5, kSaved);
  FakeWorld(3).run([&](ProcessGroup& world) {
    StateDict state = testing::blank_state(model, world.rank(), 3);
    CheckpointerOptions options;
    options.directory = directory.path();
    const auto restored = Checkpointer(world, options).restore(state, "auto", rules);
    ASSERT_TRUE(restored);
    check(*restored, state, world.rank());
  });
}

TEST(RestoreByRules, RenamedMissingAndExtra) {
  std::vector<SampleTensor> model = kSaved;
  for (const std::size_t i : {0, 1, 3, 4}) model[i].name.replace(model[i].name.find("encoder"), 7, "backbone");
  model[2].name = "model/classifier";
  model[5].name = "optimizer/exp_avg/classifier";
  const MatchRules rules = MatchRules::parse({"class*"}, {"head"}, {"encoder.**=backbone.**"});
  restore(model, rules, [&](const Restored& restored, const StateDict& state, int rank) {
    const StateDict saved = testing::sample_state(kSaved, rank, 3, 5), blank = testing::blank_state(model, rank, 3);
    for (std::size_t i = 0; i < model.size(); ++i) {
      const Region& expected = (i % 3 == 2 ? blank : saved).tensors[i].region;
      const Region& region = state.tensors[i].region;
      EXPECT_TRUE(testing::same_region(region, expected, 4)) << i;
    }
    ASSERT_EQ(restored.notes.size(), 3u);
    EXPECT_CONTAINS(restored.notes[0], "4 renamed: 'model/encoder.0.w' to 'model/backbone.0.w'");
    EXPECT_EQ(restored.notes[1],
              "2 not in the checkpoint, which keep their initial values: 'model/classifier', "
              "'optimizer/exp_avg/classifier'");
    EXPECT_EQ(restored.notes[2], "2 of the checkpoint left out: 'model/head', 'optimizer/exp_avg/head'");
  });
}

std::string error_of(const std::vector<SampleTensor>& model, const MatchRules& rules) {
  try {
    restore(model, rules, [](auto&&...) { ADD_FAILURE() << "was restored"; });
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(RestoreByRules, WhatTheRulesDoNotNameStaysAnError) {
  std::vector<SampleTensor> model = kSaved;
  model[2].name = "model/classifier";
  model[0].shape = {7, 5};
  model[1].dtype = DType::float64;
  const std::string text = error_of(model, MatchRules::parse({"head"}, {"classifier"}, {}));
  EXPECT_CONTAINS(text, "1 in the model but not in the checkpoint (--allow-missing): 'model/classifier'");
  EXPECT_CONTAINS(text, "1 in the checkpoint but not in the model (--allow-extra): 'model/head'");
  EXPECT_CONTAINS(text, "1 of another shape: 'model/encoder.0.w' is [5, 7] in the checkpoint and [7, 5] in the model");
  EXPECT_CONTAINS(text, "1 of another type: 'model/encoder.1.w' is float32 in the checkpoint and float64 in the model");
}

TEST(RestoreByRules, TwoTensorsCannotGetOneName) {
  const std::string text = error_of(kSaved, MatchRules::parse({"**"}, {"**"}, {"encoder.0.w=encoder.1.w"}));
  EXPECT_CONTAINS(text, "2 names that two tensors of the checkpoint would have by --rename: 'model/encoder.1.w'");
}

// A job with rules on its command line is requeued, and goes on from a checkpoint of its own.
TEST(RestoreByRules, RulesThatNothingNeedsDoNoHarm) {
  const MatchRules rules = MatchRules::parse({"head"}, {"tail"}, {"old.**=encoder.**"});
  restore(kSaved, rules, [&](const Restored& restored, const StateDict& state, int rank) {
    EXPECT_TRUE(testing::same_elements(state, testing::sample_state(kSaved, rank, 3, 5)));
    EXPECT_TRUE(restored.notes.empty());
  });
}

}  // namespace
}  // namespace shoal::checkpoint
