#include "models/llama.h"

#include <torch/torch.h>

#include <string>
#include <utility>

#include "core/check.h"
#include "fused/attention.h"
#include "fused/rms_norm.h"
#include "fused/rope.h"
#include "fused/swiglu.h"
#include "models/attention.h"
#include "models/init.h"
#include "models/layers.h"
#include "models/rope.h"

namespace shoal::models {
namespace {

namespace nn = torch::nn;

constexpr double kEpsilon = 1e-5, kInitialStd = 0.02;

// Zhang and Sennrich 2019. 16-bit values are normed in fp32.
struct LlamaRMSNormImpl : nn::Module {
  at::Tensor weight;

  explicit LlamaRMSNormImpl(std::int64_t width) : weight(register_parameter("weight", at::empty({width}))) {}

  at::Tensor forward(const at::Tensor& x) { return fused::rms_norm(x, weight, kEpsilon); }

  // {x + y, norm of x + y}
  std::pair<at::Tensor, at::Tensor> add(const at::Tensor& x, const at::Tensor& y) {
    return fused::add_rms_norm(x, y, weight, kEpsilon);
  }
};
TORCH_MODULE(LlamaRMSNorm);

struct LlamaAttentionImpl : nn::Module {
  std::int64_t heads, kv_heads;
  double dropout;
  Linear q_proj, k_proj, v_proj, o_proj;

  explicit LlamaAttentionImpl(const ModelOptions& o)
      : LlamaAttentionImpl(o, o.hidden_size, o.kv_heads * (o.hidden_size / o.heads)) {}

  at::Tensor forward(const at::Tensor& x, const RopeTables& tables) {
    const at::Tensor query = fused::rotate(split_heads(q_proj(x), heads), tables.cos, tables.sin);
    const at::Tensor key = fused::rotate(split_heads(k_proj(x), kv_heads), tables.cos, tables.sin);
    const at::Tensor value = split_heads(v_proj(x), kv_heads);
    return o_proj(fused::attention(query, key, value, {true, is_training() ? dropout : 0}).flatten(2));
  }

 private:
  LlamaAttentionImpl(const ModelOptions& o, std::int64_t width, std::int64_t kv_width)
      : heads(o.heads),
        kv_heads(o.kv_heads),
        dropout(o.dropout),
        q_proj(width, width, false),
        k_proj(width, kv_width, false),
        v_proj(width, kv_width, false),
        o_proj(width, width, false) {
    register_module("q_proj", q_proj);
    register_module("k_proj", k_proj);
    register_module("v_proj", v_proj);
    register_module("o_proj", o_proj);
  }
};
TORCH_MODULE(LlamaAttention);

// SwiGLU (Shazeer 2020).
struct LlamaMLPImpl : nn::Module {
  Linear gate_proj, up_proj, down_proj;

  explicit LlamaMLPImpl(const ModelOptions& o)
      : gate_proj(o.hidden_size, o.intermediate_size, false),
        up_proj(o.hidden_size, o.intermediate_size, false),
        down_proj(o.intermediate_size, o.hidden_size, false) {
    register_module("gate_proj", gate_proj);
    register_module("up_proj", up_proj);
    register_module("down_proj", down_proj);
  }

  // Added to `residual`.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual) {
    return down_proj(fused::swiglu(gate_proj(x), up_proj(x)), residual);
  }
};
TORCH_MODULE(LlamaMLP);

struct LlamaDecoderLayerImpl : nn::Module {
  LlamaAttention self_attn;
  LlamaMLP mlp;
  LlamaRMSNorm input_layernorm, post_attention_layernorm;

  explicit LlamaDecoderLayerImpl(const ModelOptions& o)
      : self_attn(o), mlp(o), input_layernorm(o.hidden_size), post_attention_layernorm(o.hidden_size) {
    register_module("self_attn", self_attn);
    register_module("mlp", mlp);
    register_module("input_layernorm", input_layernorm);
    register_module("post_attention_layernorm", post_attention_layernorm);
  }

  at::Tensor forward(const at::Tensor& x, const RopeTables& tables) {
    const auto [attended, normed] = post_attention_layernorm->add(x, self_attn(input_layernorm(x), tables));
    return mlp(normed, attended);
  }
};
TORCH_MODULE(LlamaDecoderLayer);

struct LlamaModelImpl : nn::Module {
  std::int64_t max_positions;
  RopeRule rope;
  Embedding embed_tokens;
  nn::ModuleList layers;
  LlamaRMSNorm norm;

  explicit LlamaModelImpl(const ModelOptions& o)
      : max_positions(o.max_positions),
        rope{o.hidden_size / o.heads, o.rope_theta, o.rope_scaling},
        embed_tokens(o.vocab_size, o.hidden_size),
        norm(o.hidden_size) {
    register_module("embed_tokens", embed_tokens);
    register_module("layers", layers);
    for (std::int64_t i = 0; i < o.layers; ++i) layers->push_back(LlamaDecoderLayer(o));
    register_module("norm", norm);
  }

  at::Tensor forward(const at::Tensor& tokens) {
    check_length(tokens, max_positions);
    at::Tensor x = embed_tokens(tokens);
    const RopeTables tables = rope_tables(rope, tokens.size(1), x);
    for (const auto& layer : *layers) x = layer->as<LlamaDecoderLayer>()->forward(x, tables);
    return norm(x);
  }
};
TORCH_MODULE(LlamaModel);

struct LlamaForCausalLMImpl : nn::Module {
  LlamaModel model;
  Linear lm_head;

  explicit LlamaForCausalLMImpl(const ModelOptions& o)
      : model(o),
        lm_head(o.untied_head ? Linear(o.hidden_size, o.vocab_size, false)
                              : Linear(model->embed_tokens->weight, at::Tensor())) {
    register_module("model", model);
    register_module("lm_head", lm_head);
  }

  at::Tensor features(const at::Tensor& tokens) { return model(tokens); }
  at::Tensor head(const at::Tensor& x) { return lm_head(x); }
  at::Tensor head_matrix() { return lm_head->weight; }
};
TORCH_MODULE(LlamaForCausalLM);

void check_rope(const ModelOptions& options) {
  SHOAL_CHECK(options.hidden_size / options.heads % 2 == 0, OptionError,
              "--heads {}: rotary positions turn pairs, but --hidden-size {} gives each head {} numbers", options.heads,
              options.hidden_size, options.hidden_size / options.heads);
  SHOAL_CHECK(options.rope_scaling >= 1, OptionError, "--rope-scaling {}: must be at least 1, which is no scaling",
              options.rope_scaling);
}

}  // namespace

std::unique_ptr<LanguageModel> make_llama(const ModelOptions& options) {
  check_attention(options);
  check_rope(options);
  LlamaForCausalLM net(options);
  initialize_normal(*net, options.seed, [](const std::string&) { return kInitialStd; });
  return std::make_unique<LanguageModelOf<LlamaForCausalLM>>(std::move(net));
}

}  // namespace shoal::models
