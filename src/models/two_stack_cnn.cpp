#include "models/two_stack_cnn.h"

#include <torch/torch.h>

#include "models/classifier.h"
#include "models/cross_entropy.h"
#include "models/init.h"

namespace shoal::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kSide = 28, kChannels = 32, kClasses = 10;

struct StackImpl : nn::Module {
  nn::Conv2d conv;
  nn::Linear fc;

  explicit StackImpl(std::int64_t kernel)
      : conv(nn::Conv2dOptions(1, kChannels, kernel)),
        fc(kChannels * (kSide - kernel + 1) * (kSide - kernel + 1), kClasses) {
    register_module("conv", conv);
    register_module("fc", fc);
  }

  // [n, 1, 28, 28] -> [n, 10]
  at::Tensor forward(const at::Tensor& x) { return fc(torch::relu(conv(x)).flatten(1)); }
};
TORCH_MODULE(Stack);

struct TwoStackNetImpl : nn::Module {
  Stack stack1{3}, stack2{5};

  TwoStackNetImpl() {
    register_module("stack1", stack1);
    register_module("stack2", stack2);
  }

  // [n, 1, 28, 28] -> log-probabilities [n, 10]
  at::Tensor forward(const at::Tensor& x) { return log_probabilities(stack1(x) + stack2(x)); }
};
TORCH_MODULE(TwoStackNet);

}  // namespace

std::unique_ptr<Model> make_two_stack_cnn(std::uint64_t seed) {
  TwoStackNet net;
  initialize_parameters(*net, seed);
  return std::make_unique<ClassifierOf<TwoStackNet>>(std::move(net));
}

}  // namespace shoal::models
