// Names of files against names of models, as Hugging Face and PyTorch have them.
#include "checkpoint/weights_match.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace shoal::checkpoint {
namespace {

using Names = std::vector<std::string>;

// All of one shape, but for what tests say of it.
std::vector<TensorSpec> file_of(const Names& names) {
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) specs.push_back({name, DType::float32, {8, 4}});
  return specs;
}

StateDict model_of(const Names& names, const std::vector<std::pair<std::string, std::string>>& aliases = {}) {
  StateDict state;
  for (const TensorSpec& spec : file_of(names))
    state.tensors.push_back({{"model/" + spec.name, spec.dtype, spec.shape}, {}, {}, true});
  for (const auto& [alias, name] : aliases) state.aliases.emplace_back("model/" + alias, "model/" + name);
  return state;
}

std::string error_of(const std::vector<TensorSpec>& file, const StateDict& model,
                     const std::vector<formats::OtherEntry>& others = {}) {
  try {
    match_weights(file, others, model, "FILE");
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

WeightsMatch match(const std::vector<TensorSpec>& file, const StateDict& model) {
  return match_weights(file, {}, model, "FILE");
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(WeightsMatch, EqualNamesInAnyOrder) {
  const WeightsMatch found = match(file_of({"b", "a.x", "c"}), model_of({"a.x", "b", "c"}));
  EXPECT_EQ(found.source, (std::vector<std::size_t>{1, 0, 2}));
  EXPECT_TRUE(found.notes.empty());
  EXPECT_TRUE(found.twins.empty());
}

TEST(WeightsMatch, MissingAndSuperfluousAreListedAndCounted) {
  Names many;
  for (int i = 0; i < 20; ++i) many.push_back(fmt::format("w{}", i));
  const std::string error = error_of(file_of({"w0", "extra"}), model_of(many));
  EXPECT_CONTAINS(error, "FILE does not hold the weights of this model: 19 missing in the file: 'w1', 'w2'");
  EXPECT_CONTAINS(error, "…; 1 in the file but not in the model: 'extra'");
  EXPECT_EQ(error.find("'w9'"), std::string::npos);
}

TEST(WeightsMatch, ShapesAndTypes) {
  std::vector<TensorSpec> file = file_of({"a", "b", "c"});
  file[0].shape = {4, 8};
  file[1].dtype = DType::int64;
  file[2].dtype = DType::bfloat16;
  const std::string error = error_of(file, model_of({"a", "b", "c"}));
  EXPECT_CONTAINS(error,
                  "2 of another shape or type: 'a' is float32 [4, 8] in the file and float32 [8, 4] in the model");
  EXPECT_CONTAINS(error, "'b' is int64");
}

TEST(WeightsMatch, PrefixOfTheFile) {
  const WeightsMatch found =
      match(file_of({"transformer.h.0.w", "transformer.wte.weight"}), model_of({"wte.weight", "h.0.w"}));
  EXPECT_EQ(found.source, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(found.notes, Names{"names of the file have 'transformer.' in front"});
}

// The base model's file in a model with a head of its own name, which the file has too.
TEST(WeightsMatch, PrefixOfTheModelForSomeNames) {
  const WeightsMatch found = match(file_of({"h.0.w", "wte.weight", "head"}),
                                   model_of({"transformer.wte.weight", "transformer.h.0.w", "head"}));
  EXPECT_EQ(found.source, (std::vector<std::size_t>{1, 0, 2}));
  EXPECT_EQ(found.notes, Names{"names of the file lack 'transformer.' in front"});
}

TEST(WeightsMatch, TwoPrefixesThatWouldDoAreRefused) {
  std::vector<TensorSpec> file = file_of({"x.attn.bias", "y.attn.bias"});
  for (TensorSpec& spec : file) spec.shape = {1, 1, 4, 4};  // either is the buffer that may be left out
  StateDict model = model_of({"attn.bias"});
  model.tensors[0].spec.shape = {1, 1, 4, 4};
  EXPECT_CONTAINS(error_of(file, model), "both by");
  EXPECT_CONTAINS(error_of(file_of({"x.w", "y.w"}), model_of({"w"})), "1 in the file but not in the model: ");
}

TEST(WeightsMatch, NoRenamedNameTakesAnothersPlace) {
  EXPECT_CONTAINS(error_of(file_of({"p.w", "w", "p.v"}), model_of({"w", "v"})),
                  "1 in the file but not in the model: 'p.w'");
}

TEST(WeightsMatch, OldBuffersAreLeftOut) {
  std::vector<TensorSpec> file =
      file_of({"w", "h.0.attn.bias", "h.0.attn.masked_bias", "l.rotary_emb.inv_freq", "embeddings.position_ids"});
  file[1].shape = {1, 1, 16, 16};
  file[2].shape = {};
  file[3].shape = {8};
  file[4] = {file[4].name, DType::int64, {1, 512}};
  const WeightsMatch found = match(file, model_of({"w"}));
  ASSERT_EQ(found.notes.size(), 1u);
  EXPECT_CONTAINS(found.notes[0], "4 buffers left out, which are no state: 'h.0.attn.bias'");
  file[1].shape = {16};  // a parameter
  EXPECT_CONTAINS(error_of(file, model_of({"w"})), "'h.0.attn.bias'");
}

TEST(WeightsMatch, FirstNamesOfLayerNorm) {
  const WeightsMatch found =
      match(file_of({"bert.LayerNorm.beta", "bert.LayerNorm.gamma"}), model_of({"LayerNorm.weight", "LayerNorm.bias"}));
  EXPECT_EQ(found.source, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(found.notes.size(), 2u);
}

TEST(WeightsMatch, TiedNames) {
  const StateDict tied = model_of({"wte.weight"}, {{"lm_head.weight", "wte.weight"}});
  EXPECT_TRUE(match(file_of({"wte.weight"}), tied).twins.empty());
  EXPECT_EQ(match(file_of({"lm_head.weight"}), tied).source, std::vector<std::size_t>{0});
  const WeightsMatch both = match(file_of({"lm_head.weight", "wte.weight"}), tied);
  EXPECT_EQ(both.source, std::vector<std::size_t>{1});
  EXPECT_EQ(both.twins, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 0}}));
  std::vector<TensorSpec> file = file_of({"lm_head.weight", "wte.weight"});
  file[0].shape = {8, 5};
  EXPECT_CONTAINS(error_of(file, tied), "which the model has as one tensor");
}

// A model that has no name for its head at all.
TEST(WeightsMatch, HeadWithoutAName) {
  const WeightsMatch found =
      match(file_of({"transformer.wte.weight", "lm_head.weight"}), model_of({"transformer.wte.weight"}));
  EXPECT_EQ(found.twins, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}}));
  EXPECT_EQ(found.notes, Names{"'lm_head.weight' is tied to 'transformer.wte.weight'"});
  EXPECT_CONTAINS(error_of(file_of({"a", "lm_head.weight"}), model_of({"a"})), "'lm_head.weight'");
}

TEST(WeightsMatch, UntiedHeadTakesTheEmbedding) {
  const WeightsMatch found =
      match(file_of({"model.embed_tokens.weight"}), model_of({"model.embed_tokens.weight", "lm_head.weight"}));
  EXPECT_EQ(found.source, (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(found.notes, Names{"'lm_head.weight' takes the values of 'model.embed_tokens.weight'"});
  // Both of the model are in the file: nothing is tied.
  EXPECT_TRUE(
      match(file_of({"lm_head.weight", "wte.weight"}), model_of({"wte.weight", "lm_head.weight"})).twins.empty());
}

TEST(WeightsMatch, WhatIsNoTensorIsToldWithTheReason) {
  const std::string error =
      error_of(file_of({"w"}), model_of({"w", "v"}), {{"v", "is compressed"}, {"epoch", "is no tensor"}});
  EXPECT_CONTAINS(error, "1 missing in the file: 'v' (it is compressed)");
  EXPECT_CONTAINS(error, "'epoch' (is no tensor)");
}

TEST(WeightsMatch, RulesAllowWhatTheyName) {
  const MatchRules rules = MatchRules::parse({"head.*"}, {"old.**"}, {});
  const WeightsMatch found =
      match_weights(file_of({"a", "old.x.y"}), {}, model_of({"a", "head.w", "head.b"}), "FILE", rules);
  EXPECT_EQ(found.source, (std::vector<std::size_t>{0, kNoSource, kNoSource}));
  EXPECT_EQ(found.notes, (Names{"1 of the file left out: 'old.x.y'",
                                "2 not in the file, which keep their initial values: 'head.w', 'head.b'"}));
  EXPECT_THROW(match_weights(file_of({"a", "new"}), {}, model_of({"a", "head.w"}), "FILE", rules), CheckpointError);
  EXPECT_THROW(match_weights(file_of({"a"}), {}, model_of({"a", "tail"}), "FILE", rules), CheckpointError);
}

}  // namespace
}  // namespace shoal::checkpoint
