#include "fsdp/recompute_models.h"

namespace shoal::testing {
namespace {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;

constexpr std::int64_t kIn = 6, kWidth = 8, kHeads = 2, kOut = 5;

// x² with its own idea of what to save.
struct Square : torch::autograd::Function<Square> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {2 * context->get_saved_variables()[0] * gradients[0]};
  }
};

struct AttentionImpl : torch::nn::Module {
  AttentionImpl() {
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({kWidth})));
    qkv = register_module("qkv", Linear(kWidth, 3 * kWidth));
    proj = register_module("proj", Linear(kWidth, kWidth));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({kWidth})));
    up = register_module("up", Linear(kWidth, 2 * kWidth));
    down = register_module("down", Linear(2 * kWidth, kWidth));
    drop = register_module("drop", torch::nn::Dropout(0.25));
  }
  at::Tensor attend(const at::Tensor& x) {
    const auto split = qkv(norm1(x)).view({1, -1, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const at::Tensor y = at::scaled_dot_product_attention(split[0], split[1], split[2], {}, 0.2, true);
    return drop(proj(y.transpose(1, 2).reshape({-1, kWidth})));
  }
  at::Tensor feed_forward(const at::Tensor& x) {
    at::Tensor y = up(norm2(x));
    y.mul_(1.5);                                 // what linear gave, in place
    y.narrow(1, 0, 3).add_(y.narrow(1, 4, 3));   // through views
    const auto parts = at::gelu(y).chunk(2, 1);  // several results
    y = at::cat({parts[1], (parts[0] * 2).relu_(), parts[1]}, 1).narrow(1, 3, 2 * kWidth);
    y = y + Square::apply(y) * 0.1;
    const double scale = y.detach().abs().max().item<double>() > 1 ? 0.5 : 0.75;
    at::Tensor filled = at::empty_like(y);
    filled.fill_(0.5);
    filled.slice(0, 1).copy_(y.slice(0, 1));
    const at::Tensor columns = at::arange(2 * kWidth - 1, -1, -1, at::kLong);
    return drop(down((y * scale + filled).index({at::indexing::Slice(), columns})));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = x + attend(x);
    return y + feed_forward(y);
  }
  LayerNorm norm1{nullptr}, norm2{nullptr};
  Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::Dropout drop{nullptr};
};

struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    linear = register_module("linear", Linear(kWidth, kWidth));
    norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
  }
  at::Tensor forward(const at::Tensor& x) { return x + norm(linear(x)).relu_(); }
  Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

struct OuterImpl : torch::nn::Module {
  OuterImpl() {
    before = register_module("before", Linear(kWidth, kWidth));
    inner1 = register_module("inner1", Block(kWidth));
    between = register_module("between", Linear(kWidth, kWidth));
    inner2 = register_module("inner2", Block(kWidth));
  }
  at::Tensor forward(const at::Tensor& x) { return before(inner2(at::tanh(between(inner1(at::tanh(before(x))))))); }
  Linear before{nullptr}, between{nullptr};
  Block inner1{nullptr}, inner2{nullptr};
};

struct WithImpl : torch::nn::Module {
  explicit WithImpl(std::function<at::Tensor(at::Tensor, at::Tensor)> f) : body(std::move(f)) {
    norm = register_module("norm", LayerNorm(LayerNormOptions({kWidth})));
  }
  at::Tensor forward(const at::Tensor& x) { return body(norm(x), x); }
  std::function<at::Tensor(at::Tensor, at::Tensor)> body;
  LayerNorm norm{nullptr};
};

// Modules one after the other, between an embedding and a head that belong to the root.
template <typename Impl>
struct StackImpl : torch::nn::Module {
  StackImpl(const std::vector<std::shared_ptr<Impl>>& modules, int rounds) : rounds_(rounds) {
    embed = register_module("embed", Linear(kIn, kWidth));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (const auto& module : modules) blocks->push_back(module);
    head = register_module("head", Linear(kWidth, kOut));
    to(at::kDouble);
  }
  at::Tensor forward(at::Tensor x) {
    x = embed(x);
    for (const auto& block : *blocks)
      for (int i = 0; i < rounds_; ++i) x = block->as<Impl>()->forward(x);
    return head(x);
  }
  int rounds_;
  Linear embed{nullptr}, head{nullptr};
  torch::nn::ModuleList blocks{nullptr};
};

template <typename Impl>
TestModel stack(const std::vector<std::shared_ptr<Impl>>& modules, int rounds = 1) {
  auto model = std::make_shared<StackImpl<Impl>>(modules, rounds);
  return {model, [model](at::Tensor x) { return model->forward(std::move(x)); }};
}

template <typename Impl>
TestModel stack_of(int count) {
  std::vector<std::shared_ptr<Impl>> modules;
  for (int i = 0; i < count; ++i) modules.push_back(std::make_shared<Impl>());
  return stack(modules);
}

}  // namespace

TestModel make_attention() { return stack_of<AttentionImpl>(4); }
TestModel make_batch_norm() { return stack_of<NormedImpl>(3); }
TestModel make_nested() { return stack_of<OuterImpl>(2); }
TestModel make_again() { return stack<BlockImpl>({std::make_shared<BlockImpl>(kWidth)}, 4); }
TestModel make_with(std::function<at::Tensor(at::Tensor, at::Tensor)> body) {
  return stack<WithImpl>({std::make_shared<WithImpl>(std::move(body))});
}

}  // namespace shoal::testing
