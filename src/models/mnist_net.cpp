#include "models/mnist_net.h"

#include <torch/torch.h>

#include "models/classifier.h"
#include "models/cross_entropy.h"
#include "models/init.h"

namespace shoal::models {
namespace {

namespace nn = torch::nn;

struct NetImpl : nn::Module {
  nn::Conv2d conv1{nn::Conv2dOptions(1, 32, 3)}, conv2{nn::Conv2dOptions(32, 64, 3)};
  nn::Dropout dropout1{0.25}, dropout2{0.5};
  nn::Linear fc1{9216, 128}, fc2{128, 10};

  NetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("dropout1", dropout1);
    register_module("dropout2", dropout2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  // [n, 1, 28, 28] -> log-probabilities [n, 10]
  at::Tensor forward(at::Tensor x) {
    x = torch::relu(conv1(x));
    x = torch::relu(conv2(x));
    x = dropout1(torch::max_pool2d(x, 2));
    x = torch::relu(fc1(torch::flatten(x, 1)));
    return log_probabilities(fc2(dropout2(x)));
  }
};
TORCH_MODULE(Net);

}  // namespace

std::unique_ptr<Model> make_mnist_net(std::uint64_t seed) {
  Net net;
  initialize_parameters(*net, seed);
  return std::make_unique<ClassifierOf<Net>>(std::move(net));
}

}  // namespace shoal::models
