#include "models/builtin.h"

#include "data/mnist_dataset.h"
#include "models/mnist_net.h"

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
          .open_data = open_mnist};
}

}  // namespace

std::vector<ModelEntry> builtin_models() { return {mnist_net()}; }

}  // namespace shoal::models
