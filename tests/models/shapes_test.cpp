// The shapes behind the models' names: parameters by name, what options change, and what cannot be.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/registry.h"

namespace shoal::models {
namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

std::unique_ptr<Model> make(const std::string& name, const ModelOptions& given) {
  const ModelEntry& entry = find_model(name);
  return entry.make(complete(entry, given));
}

// Tied ones under their first names.
Shapes parameters_of(Model& model) {
  Shapes shapes;
  std::set<const void*> seen;
  for (const auto& item : model.module()->named_parameters())
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) shapes[item.key()] = item.value().sizes().vec();
  return shapes;
}

ModelOptions one_layer() {
  return {.layers = 1, .heads = 2, .hidden_size = 8, .intermediate_size = 12, .vocab_size = 50, .max_positions = 16};
}

TEST(Shapes, OfGpt2AreThoseOfTransformers) {
  const Shapes expected = {{"transformer.wte.weight", {50, 8}},
                           {"transformer.wpe.weight", {16, 8}},
                           {"transformer.h.0.ln_1.weight", {8}},
                           {"transformer.h.0.ln_1.bias", {8}},
                           {"transformer.h.0.attn.c_attn.weight", {8, 24}},
                           {"transformer.h.0.attn.c_attn.bias", {24}},
                           {"transformer.h.0.attn.c_proj.weight", {8, 8}},
                           {"transformer.h.0.attn.c_proj.bias", {8}},
                           {"transformer.h.0.ln_2.weight", {8}},
                           {"transformer.h.0.ln_2.bias", {8}},
                           {"transformer.h.0.mlp.c_fc.weight", {8, 12}},
                           {"transformer.h.0.mlp.c_fc.bias", {12}},
                           {"transformer.h.0.mlp.c_proj.weight", {12, 8}},
                           {"transformer.h.0.mlp.c_proj.bias", {8}},
                           {"transformer.ln_f.weight", {8}},
                           {"transformer.ln_f.bias", {8}}};
  EXPECT_EQ(parameters_of(*make("gpt2-tiny", one_layer())), expected);
}

TEST(Shapes, OfLlamaAreThoseOfTransformers) {
  ModelOptions options = one_layer();
  options.kv_heads = 1;
  options.untied_head = true;
  const Shapes expected = {{"model.embed_tokens.weight", {50, 8}},
                           {"model.layers.0.self_attn.q_proj.weight", {8, 8}},
                           {"model.layers.0.self_attn.k_proj.weight", {4, 8}},
                           {"model.layers.0.self_attn.v_proj.weight", {4, 8}},
                           {"model.layers.0.self_attn.o_proj.weight", {8, 8}},
                           {"model.layers.0.mlp.gate_proj.weight", {12, 8}},
                           {"model.layers.0.mlp.up_proj.weight", {12, 8}},
                           {"model.layers.0.mlp.down_proj.weight", {8, 12}},
                           {"model.layers.0.input_layernorm.weight", {8}},
                           {"model.layers.0.post_attention_layernorm.weight", {8}},
                           {"model.norm.weight", {8}},
                           {"lm_head.weight", {50, 8}}};
  EXPECT_EQ(parameters_of(*make("llama-tiny", options)), expected);
}

Shapes bert_shapes() {
  Shapes shapes = {{"bert.embeddings.word_embeddings.weight", {50, 8}},
                   {"bert.embeddings.position_embeddings.weight", {16, 8}},
                   {"bert.embeddings.token_type_embeddings.weight", {2, 8}},
                   {"bert.encoder.layer.0.intermediate.dense.weight", {12, 8}},
                   {"bert.encoder.layer.0.intermediate.dense.bias", {12}},
                   {"bert.encoder.layer.0.output.dense.weight", {8, 12}},
                   {"bert.encoder.layer.0.output.dense.bias", {8}},
                   {"cls.predictions.bias", {50}}};
  for (const std::string linear :
       {"bert.encoder.layer.0.attention.self.query", "bert.encoder.layer.0.attention.self.key",
        "bert.encoder.layer.0.attention.self.value", "bert.encoder.layer.0.attention.output.dense",
        "cls.predictions.transform.dense"}) {
    shapes[linear + ".weight"] = {8, 8};
    shapes[linear + ".bias"] = {8};
  }
  for (const std::string norm : {"bert.embeddings", "bert.encoder.layer.0.attention.output",
                                 "bert.encoder.layer.0.output", "cls.predictions.transform"}) {
    shapes[norm + ".LayerNorm.weight"] = {8};
    shapes[norm + ".LayerNorm.bias"] = {8};
  }
  return shapes;
}

TEST(Shapes, OfBertAreThoseOfTransformers) {
  EXPECT_EQ(parameters_of(*make("bert-tiny", one_layer())), bert_shapes());
  ModelOptions untied = one_layer();
  untied.untied_head = true;
  Shapes expected = bert_shapes();
  expected.erase("cls.predictions.bias");
  expected["cls.predictions.decoder.weight"] = {50, 8};
  expected["cls.predictions.decoder.bias"] = {50};
  EXPECT_EQ(parameters_of(*make("bert-tiny", untied)), expected);
}

TEST(Shapes, AWidthBringsAnMlpOfTheSameProportion) {
  const ModelEntry& entry = find_model("gpt2-124m");
  EXPECT_EQ(complete(entry, {}).intermediate_size, 3072);
  EXPECT_EQ(complete(entry, {.hidden_size = 60}).intermediate_size, 240);
  EXPECT_EQ(complete(entry, {.hidden_size = 60, .intermediate_size = 100}).intermediate_size, 100);
  EXPECT_EQ(complete(find_model("llama-8b"), {.hidden_size = 2048}).intermediate_size, 7168);
}

TEST(Shapes, InitialWeightsAreThoseOfTheOriginals) {
  const auto model = make("gpt2-tiny", {.layers = 2, .heads = 2, .hidden_size = 128, .vocab_size = 500});
  const auto parameters = model->module()->named_parameters();
  const auto std_of = [&](const char* name) { return parameters[name].std().item<double>(); };
  EXPECT_NEAR(std_of("transformer.wte.weight"), 0.02, 2e-4);
  EXPECT_NEAR(std_of("transformer.h.1.attn.c_attn.weight"), 0.02, 2e-4);
  EXPECT_NEAR(std_of("transformer.h.1.attn.c_proj.weight"), 0.02 / std::sqrt(4.0), 2e-4);
  EXPECT_NEAR(std_of("transformer.h.1.mlp.c_proj.weight"), 0.02 / std::sqrt(4.0), 1e-4);
  EXPECT_TRUE(at::equal(parameters["transformer.h.1.ln_2.weight"], torch::ones({128})));
  EXPECT_TRUE(at::equal(parameters["transformer.h.1.ln_2.bias"], torch::zeros({128})));
  EXPECT_TRUE(at::equal(parameters["transformer.h.0.mlp.c_fc.bias"], torch::zeros({512})));
}

void expect_refused(const std::string& name, const ModelOptions& given, const std::string& message) {
  try {
    make(name, given);
    ADD_FAILURE() << "taken: " << message;
  } catch (const OptionError& error) {
    EXPECT_EQ(error.what(), message);
  }
}

TEST(Shapes, ThatCannotBeAreRefused) {
  expect_refused("gpt2-tiny", {.heads = 3}, "--heads 3: must divide the width, --hidden-size 128");
  expect_refused("llama-tiny", {.kv_heads = 3}, "--kv-heads 3: must divide --heads 4");
  expect_refused("llama-tiny", {.heads = 4, .hidden_size = 12},
                 "--heads 4: rotary positions turn pairs, but --hidden-size 12 gives each head 3 numbers");
  expect_refused("bert-tiny", {.dropout = 1}, "--dropout 1: must be in [0, 1)");
  expect_refused("llama-tiny", {.rope_scaling = 0.5}, "--rope-scaling 0.5: must be at least 1, which is no scaling");
  expect_refused("gpt2-tiny", {.kv_heads = 2}, "--kv-heads: model gpt2-tiny has no such thing");
  expect_refused("two-stack-cnn", {.layers = 2}, "--layers: model two-stack-cnn has no such thing");
}

TEST(Registry, AnUnknownModelListsTheKnown) {
  try {
    find_model("resnet");
    FAIL();
  } catch (const OptionError& error) {
    EXPECT_EQ(std::string(error.what())
                  .find("--model: there is no 'resnet'; the models are: mnist-net, two-stack-cnn, "
                        "gpt2-tiny, gpt2-124m, "),
              0)
        << error.what();
  }
}

}  // namespace
}  // namespace shoal::models
