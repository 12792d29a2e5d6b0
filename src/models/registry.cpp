#include "models/registry.h"

#include "core/error.h"
#include "data/mnist_dataset.h"
#include "models/mnist_net.h"

namespace shoal::models {
namespace {

std::unique_ptr<data::Dataset> open_mnist(const std::filesystem::path& path, data::Split split) {
  return std::make_unique<data::MnistDataset>(path, split);
}

}  // namespace

const std::vector<ModelEntry>& model_entries() {
  static const std::vector<ModelEntry> entries = {
      {.name = "mnist-net",
       .summary = "the network of PyTorch's MNIST example and FSDP tutorial; --data names a folder of idx files",
       .defaults = {.optimizer = "adadelta",
                    .learning_rate = 1.0,
                    .schedule = "step:1:0.7",
                    .wrap = "size:20000",
                    .epochs = 10,
                    .batch_size = 64},
       .make = make_mnist_net,
       .open_data = open_mnist},
  };
  return entries;
}

const ModelEntry& find_model(const std::string& name) {
  std::string known;
  for (const ModelEntry& entry : model_entries()) {
    if (entry.name == name) return entry;
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw OptionError("--model: there is no '{}'; the models are: {}", name, known);
}

}  // namespace shoal::models
