// One's own model and loss: shoal train --model-plugin build/libmy_net.so --model my-net --data MNIST_FOLDER
#include <torch/torch.h>

#include "data/mnist_dataset.h"
#include "models/plugin.h"

using namespace shoal;

struct MyNetImpl : torch::nn::Module {
  torch::nn::Linear hidden{register_module("hidden", torch::nn::Linear(784, 64))};
  torch::nn::Linear output{register_module("output", torch::nn::Linear(64, 10))};
  at::Tensor forward(const at::Tensor& x) { return output(torch::gelu(hidden(x.flatten(1)))).to(at::kFloat); }
};
TORCH_MODULE(MyNet);

struct MyModel final : models::Model {
  MyNet net;
  std::shared_ptr<torch::nn::Module> module() override { return net.ptr(); }
  models::LossSum loss(const data::Batch& batch) override {
    const auto smooth = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum).label_smoothing(0.1);
    return {torch::nn::functional::cross_entropy(net(batch.inputs), batch.targets, smooth), batch.targets.size(0)};
  }
  models::EvalSum evaluate(const data::Batch& batch) override {
    const at::Tensor right = net(batch.inputs).argmax(1).eq(batch.targets).sum();
    return {loss(batch).sum.item<double>(), right.item<std::int64_t>(), batch.targets.size(0)};
  }
};

SHOAL_MODEL_PLUGIN {
  models::ModelEntry entry{.name = "my-net", .summary = "two layers, with label smoothing"};
  entry.defaults = {"adam", /*learning_rate=*/1e-3, "constant", /*wrap=*/"none", /*epochs=*/3, /*batch_size=*/32};
  entry.make = [](const models::ModelOptions& options) {
    torch::manual_seed(options.seed);
    return std::make_unique<MyModel>();
  };
  entry.open_data = [](const data::DataRequest& request, data::Split split) {
    return std::make_unique<data::MnistDataset>(request.path, split);
  };
  models::add_model(std::move(entry));
}
