#include "fsdp/harness.h"

namespace shoal::testing {

namespace {

constexpr std::int64_t kIn = 6, kWidth = 7, kOut = 5;  // primes, so that shards cut through rows
const auto kDouble = at::TensorOptions().dtype(at::kDouble);

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    embed = register_module("embed", torch::nn::Linear(kIn, kWidth));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) blocks->push_back(Block(kWidth));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    head = register_module("head", torch::nn::Linear(kWidth, kOut));
    to(at::kDouble);
  }
  at::Tensor forward(at::Tensor x) {
    x = embed(x);
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return head(norm(x));
  }
  torch::nn::Linear embed{nullptr}, head{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};

template <typename Impl>
TestModel made(std::shared_ptr<Impl> module) {
  return {module, [module](at::Tensor x) { return module->forward(std::move(x)); }};
}

}  // namespace

BlockImpl::BlockImpl(std::int64_t width, bool dropout) {
  norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  up = register_module("up", torch::nn::Linear(width, 2 * width));
  down = register_module("down", torch::nn::Linear(2 * width, width));
  if (dropout) register_module("drop", torch::nn::Dropout(0.5));
}

at::Tensor BlockImpl::forward(at::Tensor x) { return x + down(torch::gelu(up(norm(x)))); }

TestModel make_mlp() { return made(std::make_shared<MlpImpl>()); }

TestModel make_tied() {
  struct TiedImpl : torch::nn::Module {
    TiedImpl() {
      embed = register_module("embed", torch::nn::Linear(torch::nn::LinearOptions(kIn, kIn).bias(false)));
      block = register_module("block", Block(kIn));
      inner = register_module("inner", Block(kIn));
      head = register_module("head", torch::nn::Linear(kIn, kOut));
      to(at::kDouble);
      // The tensor itself under a second name, inside another unit.
      inner->register_parameter("tied", embed->weight);
    }
    at::Tensor forward(const at::Tensor& x) {
      at::Tensor h = block(embed(x));
      h = torch::linear(h, inner->named_parameters(false)["tied"]);
      return head(inner(h));
    }
    torch::nn::Linear embed{nullptr}, head{nullptr};
    Block block{nullptr}, inner{nullptr};
  };
  return made(std::make_shared<TiedImpl>());
}

TestModel make_frozen() {
  auto mlp = std::make_shared<MlpImpl>();
  for (const at::Tensor& p : mlp->blocks[1]->parameters()) p.set_requires_grad(false);
  mlp->head->bias.set_requires_grad(false);  // and one of several in its unit
  return made(mlp);
}

TestModel make_unused() {
  struct UnusedImpl : MlpImpl {
    UnusedImpl() {
      register_module("never", Block(kWidth));
      blocks[1]->register_parameter("ignored", at::ones({3}, kDouble));
      to(at::kDouble);
    }
  };
  return made(std::make_shared<UnusedImpl>());
}

TestModel make_twice() {
  struct TwiceImpl : MlpImpl {
    at::Tensor forward(at::Tensor x) {
      x = embed(x);
      for (const int i : {0, 1, 0, 2, 1}) x = blocks[static_cast<std::size_t>(i)]->as<Block>()->forward(x);
      return head(norm(x));
    }
  };
  return made(std::make_shared<TwiceImpl>());
}

TestModel make_mixed_dtypes() {
  struct MixedImpl : MlpImpl {
    MixedImpl() {
      scale = blocks[0]->register_parameter("scale", at::ones({kWidth}, at::TensorOptions().dtype(at::kFloat)));
      shift = register_parameter("shift", at::ones({kWidth}, at::TensorOptions().dtype(at::kFloat)));
    }
    at::Tensor forward(at::Tensor x) {
      x = embed(x) * scale + shift;
      for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
      return head(norm(x));
    }
    at::Tensor scale, shift;
  };
  return made(std::make_shared<MixedImpl>());
}

TestModel make_tiny() {
  struct TinyImpl : torch::nn::Module {
    TinyImpl() {
      scale = register_parameter("scale", at::ones({1}, kDouble));
      shift = register_parameter("shift", at::ones({}, kDouble));
      nothing = register_parameter("nothing", at::ones({0, 3}, kDouble));
    }
    at::Tensor forward(const at::Tensor& x) { return x.narrow(1, 0, kOut) * scale + shift + nothing.sum(); }
    at::Tensor scale, shift, nothing;
  };
  return made(std::make_shared<TinyImpl>());
}

TestModel make_conv() {
  struct ConvImpl : torch::nn::Module {
    ConvImpl() {
      conv = register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(1, 3, 3)));
      norm = register_module("norm", torch::nn::BatchNorm1d(3));
      fc = register_module("fc", torch::nn::Linear(3 * (kIn - 2), kOut));
      to(at::kDouble);
      norm->eval();
    }
    at::Tensor forward(const at::Tensor& x) { return fc(torch::relu(norm(conv(x.unsqueeze(1)))).flatten(1)); }
    torch::nn::Conv1d conv{nullptr};
    torch::nn::BatchNorm1d norm{nullptr};
    torch::nn::Linear fc{nullptr};
  };
  auto module = std::make_shared<ConvImpl>();
  TestModel model = made(module);
  return model;
}

}  // namespace shoal::testing
