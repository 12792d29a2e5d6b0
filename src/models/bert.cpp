#include "models/bert.h"

#include <torch/torch.h>

#include <string>

#include "fused/attention.h"
#include "models/attention.h"
#include "models/init.h"
#include "models/layers.h"

namespace shoal::models {
namespace {

namespace nn = torch::nn;

constexpr double kEpsilon = 1e-12, kInitialStd = 0.02;
constexpr std::int64_t kSegments = 2;

struct BertEmbeddingsImpl : nn::Module {
  double dropout;
  Embedding word_embeddings, position_embeddings, token_type_embeddings;
  LayerNorm norm;

  explicit BertEmbeddingsImpl(const ModelOptions& o)
      : dropout(o.dropout),
        word_embeddings(o.vocab_size, o.hidden_size),
        position_embeddings(o.max_positions, o.hidden_size),
        token_type_embeddings(kSegments, o.hidden_size),
        norm(o.hidden_size, kEpsilon) {
    register_module("word_embeddings", word_embeddings);
    register_module("position_embeddings", position_embeddings);
    register_module("token_type_embeddings", token_type_embeddings);
    register_module("LayerNorm", norm);
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor first_segment = token_type_embeddings(at::zeros({1, 1}, tokens.options()));
    const at::Tensor positions = position_embeddings(at::arange(tokens.size(1), tokens.options()));
    return at::dropout(norm(word_embeddings(tokens) + first_segment + positions), dropout, is_training());
  }
};
TORCH_MODULE(BertEmbeddings);

struct BertSelfAttentionImpl : nn::Module {
  std::int64_t heads;
  double dropout;
  Linear query, key, value;

  explicit BertSelfAttentionImpl(const ModelOptions& o)
      : heads(o.heads),
        dropout(o.dropout),
        query(o.hidden_size, o.hidden_size),
        key(o.hidden_size, o.hidden_size),
        value(o.hidden_size, o.hidden_size) {
    register_module("query", query);
    register_module("key", key);
    register_module("value", value);
  }

  at::Tensor forward(const at::Tensor& x) {
    return fused::attention(split_heads(query(x), heads), split_heads(key(x), heads), split_heads(value(x), heads),
                            {false, is_training() ? dropout : 0})
        .flatten(2);
  }
};
TORCH_MODULE(BertSelfAttention);

// What both halves of a layer end with: a projection that is added to the residual stream, then normed.
struct BertResidualImpl : nn::Module {
  double dropout;
  Linear dense;
  LayerNorm norm;

  BertResidualImpl(const ModelOptions& o, std::int64_t in)
      : dropout(o.dropout), dense(in, o.hidden_size), norm(o.hidden_size, kEpsilon) {
    register_module("dense", dense);
    register_module("LayerNorm", norm);
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual) {
    return norm->add(at::dropout(dense(x), dropout, is_training()), residual).second;
  }
};

struct BertSelfOutputImpl : BertResidualImpl {
  explicit BertSelfOutputImpl(const ModelOptions& o) : BertResidualImpl(o, o.hidden_size) {}
};
TORCH_MODULE(BertSelfOutput);

struct BertOutputImpl : BertResidualImpl {
  explicit BertOutputImpl(const ModelOptions& o) : BertResidualImpl(o, o.intermediate_size) {}
};
TORCH_MODULE(BertOutput);

struct BertAttentionImpl : nn::Module {
  BertSelfAttention self;
  BertSelfOutput output;

  explicit BertAttentionImpl(const ModelOptions& o) : self(o), output(o) {
    register_module("self", self);
    register_module("output", output);
  }

  at::Tensor forward(const at::Tensor& x) { return output(self(x), x); }
};
TORCH_MODULE(BertAttention);

struct BertIntermediateImpl : nn::Module {
  Linear dense;

  explicit BertIntermediateImpl(const ModelOptions& o) : dense(o.hidden_size, o.intermediate_size) {
    register_module("dense", dense);
  }

  at::Tensor forward(const at::Tensor& x) { return at::gelu(dense(x)); }
};
TORCH_MODULE(BertIntermediate);

struct BertLayerImpl : nn::Module {
  BertAttention attention;
  BertIntermediate intermediate;
  BertOutput output;

  explicit BertLayerImpl(const ModelOptions& o) : attention(o), intermediate(o), output(o) {
    register_module("attention", attention);
    register_module("intermediate", intermediate);
    register_module("output", output);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor attended = attention(x);
    return output(intermediate(attended), attended);
  }
};
TORCH_MODULE(BertLayer);

struct BertEncoderImpl : nn::Module {
  nn::ModuleList layer;

  explicit BertEncoderImpl(const ModelOptions& o) {
    register_module("layer", layer);
    for (std::int64_t i = 0; i < o.layers; ++i) layer->push_back(BertLayer(o));
  }

  at::Tensor forward(at::Tensor x) {
    for (const auto& item : *layer) x = item->as<BertLayer>()->forward(x);
    return x;
  }
};
TORCH_MODULE(BertEncoder);

struct BertModelImpl : nn::Module {
  std::int64_t max_positions;
  BertEmbeddings embeddings;
  BertEncoder encoder;

  explicit BertModelImpl(const ModelOptions& o) : max_positions(o.max_positions), embeddings(o), encoder(o) {
    register_module("embeddings", embeddings);
    register_module("encoder", encoder);
  }

  at::Tensor forward(const at::Tensor& tokens) {
    check_length(tokens, max_positions);
    return encoder(embeddings(tokens));
  }
};
TORCH_MODULE(BertModel);

struct BertPredictionHeadTransformImpl : nn::Module {
  Linear dense;
  LayerNorm norm;

  explicit BertPredictionHeadTransformImpl(const ModelOptions& o)
      : dense(o.hidden_size, o.hidden_size), norm(o.hidden_size, kEpsilon) {
    register_module("dense", dense);
    register_module("LayerNorm", norm);
  }

  at::Tensor forward(const at::Tensor& x) { return norm(at::gelu(dense(x))); }
};
TORCH_MODULE(BertPredictionHeadTransform);

struct BertLMPredictionHeadImpl : nn::Module {
  BertPredictionHeadTransform transform;
  Linear decoder{nullptr};

  BertLMPredictionHeadImpl(const ModelOptions& o, const at::Tensor& embedding) : transform(o) {
    if (!o.untied_head) {
      const at::Tensor bias = register_parameter("bias", at::empty({o.vocab_size}));
      decoder = Linear(embedding, bias);
    } else {
      decoder = Linear(o.hidden_size, o.vocab_size);
    }
    register_module("transform", transform);
    register_module("decoder", decoder);
  }

  at::Tensor forward(const at::Tensor& x) { return decoder(transform(x)); }
};
TORCH_MODULE(BertLMPredictionHead);

struct BertOnlyMLMHeadImpl : nn::Module {
  BertLMPredictionHead predictions;

  BertOnlyMLMHeadImpl(const ModelOptions& o, const at::Tensor& embedding) : predictions(o, embedding) {
    register_module("predictions", predictions);
  }

  at::Tensor forward(const at::Tensor& x) { return predictions(x); }
};
TORCH_MODULE(BertOnlyMLMHead);

struct BertForMaskedLMImpl : nn::Module {
  BertModel bert;
  BertOnlyMLMHead cls;

  explicit BertForMaskedLMImpl(const ModelOptions& o) : bert(o), cls(o, bert->embeddings->word_embeddings->weight) {
    register_module("bert", bert);
    register_module("cls", cls);
  }

  at::Tensor features(const at::Tensor& tokens) { return bert(tokens); }
  at::Tensor head(const at::Tensor& x) { return cls(x); }
};
TORCH_MODULE(BertForMaskedLM);

}  // namespace

std::unique_ptr<LanguageModel> make_bert(const ModelOptions& options) {
  check_attention(options);
  BertForMaskedLM net(options);
  initialize_normal(*net, options.seed, [](const std::string&) { return kInitialStd; });
  return std::make_unique<LanguageModelOf<BertForMaskedLM>>(std::move(net));
}

}  // namespace shoal::models
