#include "models/gpt2.h"

#include <torch/torch.h>

#include <cmath>
#include <string>

#include "fused/attention.h"
#include "fused/gelu_mlp.h"
#include "models/attention.h"
#include "models/init.h"
#include "models/layers.h"

namespace shoal::models {
namespace {

namespace nn = torch::nn;

constexpr double kEpsilon = 1e-5, kInitialStd = 0.02;

struct GPT2AttentionImpl : nn::Module {
  std::int64_t heads;
  double dropout;
  Conv1D c_attn, c_proj;

  explicit GPT2AttentionImpl(const ModelOptions& o)
      : heads(o.heads),
        dropout(o.dropout),
        c_attn(o.hidden_size, 3 * o.hidden_size),
        c_proj(o.hidden_size, o.hidden_size) {
    register_module("c_attn", c_attn);
    register_module("c_proj", c_proj);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor mixed = fused::packed_attention(c_attn(x), heads, {true, is_training() ? dropout : 0});
    return at::dropout(c_proj(mixed), dropout, is_training());
  }
};
TORCH_MODULE(GPT2Attention);

struct GPT2MLPImpl : nn::Module {
  double dropout;
  Conv1D c_fc, c_proj;

  explicit GPT2MLPImpl(const ModelOptions& o)
      : dropout(o.dropout), c_fc(o.hidden_size, o.intermediate_size), c_proj(o.intermediate_size, o.hidden_size) {
    register_module("c_fc", c_fc);
    register_module("c_proj", c_proj);
  }

  // Added to `residual`. What is dropped comes between the second product and the addition, so then nothing is fused.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual) {
    if (is_training() && dropout > 0)
      return residual + at::dropout(c_proj(at::gelu(c_fc(x), "tanh")), dropout, /*train=*/true);
    return fused::gelu_mlp(x, {c_fc->weight, c_fc->bias, c_proj->weight, c_proj->bias, fused::WeightLayout::in_out},
                           residual);
  }
};
TORCH_MODULE(GPT2MLP);

struct GPT2BlockImpl : nn::Module {
  LayerNorm ln_1, ln_2;
  GPT2Attention attn;
  GPT2MLP mlp;

  explicit GPT2BlockImpl(const ModelOptions& o)
      : ln_1(o.hidden_size, kEpsilon), ln_2(o.hidden_size, kEpsilon), attn(o), mlp(o) {
    register_module("ln_1", ln_1);
    register_module("attn", attn);
    register_module("ln_2", ln_2);
    register_module("mlp", mlp);
  }

  at::Tensor forward(const at::Tensor& x) {
    const auto [attended, normed] = ln_2->add(x, attn(ln_1(x)));
    return mlp(normed, attended);
  }
};
TORCH_MODULE(GPT2Block);

struct GPT2ModelImpl : nn::Module {
  std::int64_t max_positions;
  double dropout;
  Embedding wte, wpe;
  nn::ModuleList h;
  LayerNorm ln_f;

  explicit GPT2ModelImpl(const ModelOptions& o)
      : max_positions(o.max_positions),
        dropout(o.dropout),
        wte(o.vocab_size, o.hidden_size),
        wpe(o.max_positions, o.hidden_size),
        ln_f(o.hidden_size, kEpsilon) {
    register_module("wte", wte);
    register_module("wpe", wpe);
    register_module("h", h);
    for (std::int64_t i = 0; i < o.layers; ++i) h->push_back(GPT2Block(o));
    register_module("ln_f", ln_f);
  }

  at::Tensor forward(const at::Tensor& tokens) {
    check_length(tokens, max_positions);
    at::Tensor x = at::dropout(wte(tokens) + wpe(at::arange(tokens.size(1), tokens.options())), dropout, is_training());
    for (const auto& block : *h) x = block->as<GPT2Block>()->forward(x);
    return ln_f(x);
  }
};
TORCH_MODULE(GPT2Model);

struct GPT2LMHeadModelImpl : nn::Module {
  GPT2Model transformer;
  Linear lm_head;

  explicit GPT2LMHeadModelImpl(const ModelOptions& o)
      : transformer(o),
        lm_head(o.untied_head ? Linear(o.hidden_size, o.vocab_size, false)
                              : Linear(transformer->wte->weight, at::Tensor())) {
    register_module("transformer", transformer);
    register_module("lm_head", lm_head);
  }

  at::Tensor features(const at::Tensor& tokens) { return transformer(tokens); }
  at::Tensor head(const at::Tensor& x) { return lm_head(x); }
  at::Tensor head_matrix() { return lm_head->weight; }
};
TORCH_MODULE(GPT2LMHeadModel);

}  // namespace

std::unique_ptr<LanguageModel> make_gpt2(const ModelOptions& options) {
  check_attention(options);
  GPT2LMHeadModel net(options);
  const double residual_std = kInitialStd / std::sqrt(2.0 * static_cast<double>(options.layers));
  initialize_normal(*net, options.seed, [residual_std](const std::string& fqn) {
    return fqn.ends_with(".c_proj.weight") ? residual_std : kInitialStd;
  });
  return std::make_unique<LanguageModelOf<GPT2LMHeadModel>>(std::move(net));
}

}  // namespace shoal::models
