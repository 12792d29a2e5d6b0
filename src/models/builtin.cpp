#include "models/builtin.h"

#include <string>
#include <utility>

#include "data/batch_shapes.h"
#include "data/masked_dataset.h"
#include "data/mnist_dataset.h"
#include "data/token_dataset.h"
#include "models/bert.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "models/mnist_net.h"
#include "models/two_stack_cnn.h"

namespace shoal::models {
namespace {

std::unique_ptr<data::Dataset> open_mnist(const data::DataRequest& request, data::Split split) {
  return std::make_unique<data::MnistDataset>(request.path, split);
}

ModelEntry mnist_net() {
  return {.name = "mnist-net",
          .summary = "the network of PyTorch's MNIST example and FSDP tutorial; --data names a folder of idx files",
          .defaults = {.optimizer = "adadelta",
                       .learning_rate = 1.0,
                       .schedule = "step:1:0.7",
                       .wrap = "size:20000",
                       .epochs = 10,
                       .batch_size = 64},
          .make = [](const ModelOptions& options) { return make_mnist_net(options.seed); },
          .open_data = open_mnist,
          .batch_shapes = data::mnist_shapes};
}

ModelEntry two_stack_cnn() {
  return {.name = "two-stack-cnn",
          .summary =
              "two stacks of convolution and linear layer, summed, then a softmax; --data names a folder of idx "
              "files",
          .defaults = {.optimizer = "adam",
                       .learning_rate = 1e-2,
                       .schedule = "step:1:0.5",
                       .wrap = "size:512",
                       .epochs = 5,
                       .batch_size = 50},
          .make = [](const ModelOptions& options) { return make_two_stack_cnn(options.seed); },
          .open_data = open_mnist,
          .batch_shapes = data::mnist_shapes};
}

// What differs between the entries of one family.
struct Size {
  std::string name, summary;
  double learning_rate;
  std::int64_t batch_size;
  ModelOptions shape;
};

// Blocks are units, and so are embedding and head where they are not tied and larger than a block of most models: the
// root's unit is whole all the time.
TrainingDefaults language_defaults(const Size& size, std::string schedule, const std::string& block) {
  return {.optimizer = "adamw",
          .learning_rate = size.learning_rate,
          .schedule = std::move(schedule),
          .wrap = "class:" + block + "+rest:10000000",
          .epochs = 1,
          .batch_size = size.batch_size};
}

ModelEntry gpt2(const Size& size) {
  ModelOptions shape = size.shape;
  shape.intermediate_size = 4 * shape.hidden_size;
  shape.vocab_size = 50257;
  shape.max_positions = 1024;
  shape.dropout = 0;
  return {.name = size.name,
          .summary = size.summary,
          .defaults = language_defaults(size, "cosine:0.1", "GPT2Block"),
          .shape = shape,
          .metric = Metric::perplexity,
          .make = make_gpt2,
          .open_data = data::open_tokens,
          .batch_shapes = data::token_shapes};
}

ModelEntry llama(const Size& size) {
  ModelOptions shape = size.shape;
  shape.dropout = 0;
  shape.rope_theta = 500000;
  return {.name = size.name,
          .summary = size.summary,
          .defaults = language_defaults(size, "cosine:0.1", "LlamaDecoderLayer"),
          .shape = shape,
          .metric = Metric::perplexity,
          .make = make_llama,
          .open_data = data::open_tokens,
          .batch_shapes = data::token_shapes};
}

ModelEntry bert(const Size& size) {
  ModelOptions shape = size.shape;
  shape.intermediate_size = 4 * shape.hidden_size;
  shape.vocab_size = 30522;
  shape.max_positions = 512;
  shape.dropout = 0.1;
  return {.name = size.name,
          .summary = size.summary,
          .defaults = language_defaults(size, "linear", "BertLayer"),
          .shape = shape,
          .metric = Metric::perplexity,
          .make = make_bert,
          .open_data = data::open_masked_tokens,
          .batch_shapes = data::masked_token_shapes};
}

// Learning rates: Brown et al. 2020, table 2.1, for models of these sizes.
std::vector<Size> gpt2_sizes() {
  return {{"gpt2-tiny",
           "GPT-2 of 4 layers and width 128, for trials",
           1e-3,
           8,
           {.layers = 4, .heads = 4, .hidden_size = 128}},
          {"gpt2-124m", "GPT-2", 6e-4, 8, {.layers = 12, .heads = 12, .hidden_size = 768}},
          {"gpt2-355m", "GPT-2 medium", 3e-4, 8, {.layers = 24, .heads = 16, .hidden_size = 1024}},
          {"gpt2-774m", "GPT-2 large", 2.5e-4, 4, {.layers = 36, .heads = 20, .hidden_size = 1280}},
          {"gpt2-1.5b", "GPT-2 XL", 2e-4, 4, {.layers = 48, .heads = 25, .hidden_size = 1600}}};
}

std::vector<Size> llama_sizes() {
  const ModelOptions tiny{.layers = 4,
                          .heads = 4,
                          .kv_heads = 2,
                          .hidden_size = 128,
                          .intermediate_size = 384,
                          .vocab_size = 50257,
                          .max_positions = 2048,
                          .rope_scaling = 1};
  const ModelOptions llama_3_2_1b{.layers = 16,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .hidden_size = 2048,
                                  .intermediate_size = 8192,
                                  .vocab_size = 128256,
                                  .max_positions = 131072,
                                  .rope_scaling = 32};
  const ModelOptions llama_3_1_8b{.layers = 32,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .hidden_size = 4096,
                                  .intermediate_size = 14336,
                                  .vocab_size = 128256,
                                  .max_positions = 131072,
                                  .untied_head = true,
                                  .rope_scaling = 8};
  return {{"llama-tiny", "Llama 3 of 4 layers and width 128, with GPT-2's vocabulary, for trials", 1e-3, 8, tiny},
          {"llama-1b", "Llama 3.2 1B", 3e-4, 4, llama_3_2_1b},
          {"llama-8b", "Llama 3.1 8B", 3e-4, 1, llama_3_1_8b}};
}

std::vector<Size> bert_sizes() {
  return {{"bert-tiny",
           "BERT of 2 layers and width 128, as a masked language model",
           1e-3,
           16,
           {.layers = 2, .heads = 2, .hidden_size = 128}},
          {"bert-base",
           "BERT base, as a masked language model",
           1e-4,
           16,
           {.layers = 12, .heads = 12, .hidden_size = 768}}};
}

}  // namespace

std::vector<ModelEntry> builtin_models() {
  std::vector<ModelEntry> models{mnist_net(), two_stack_cnn()};
  for (const Size& size : gpt2_sizes()) models.push_back(gpt2(size));
  for (const Size& size : llama_sizes()) models.push_back(llama(size));
  for (const Size& size : bert_sizes()) models.push_back(bert(size));
  return models;
}

}  // namespace shoal::models
