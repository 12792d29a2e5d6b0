#include "models/mnist_net.h"

#include <torch/torch.h>

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
    const at::Tensor scores = fc2(dropout2(x));
    const bool narrow = scores.element_size() < 4;  // 16-bit parameters: the loss is fp32 all the same
    return torch::log_softmax(scores, 1, narrow ? at::kFloat : scores.scalar_type());
  }
};
TORCH_MODULE(Net);

class MnistNet final : public Model {
 public:
  explicit MnistNet(std::uint64_t seed) { initialize_parameters(*net_, seed); }

  std::shared_ptr<nn::Module> module() override { return net_.ptr(); }

  LossSum loss(const data::Batch& batch) override {
    return {torch::nll_loss(net_(batch.inputs), batch.targets, {}, at::Reduction::Sum), batch.targets.size(0)};
  }

  EvalSum evaluate(const data::Batch& batch) override {
    const at::Tensor output = net_(batch.inputs);
    const at::Tensor loss = torch::nll_loss(output, batch.targets, {}, at::Reduction::Sum);
    const at::Tensor correct = output.argmax(1).eq(batch.targets).sum();
    return {loss.item<double>(), correct.item<std::int64_t>(), batch.targets.size(0)};
  }

 private:
  Net net_;
};

}  // namespace

std::unique_ptr<Model> make_mnist_net(std::uint64_t seed) { return std::make_unique<MnistNet>(seed); }

}  // namespace shoal::models
