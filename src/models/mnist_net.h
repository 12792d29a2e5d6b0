// The network of PyTorch's MNIST example and FSDP tutorial. Its parameters have the same names as there.
#pragma once

#include <cstdint>
#include <memory>

#include "models/model.h"

namespace shoal::models {

// Takes batches of data::MnistDataset. 1 199 882 parameters.
std::unique_ptr<Model> make_mnist_net(std::uint64_t seed);

}  // namespace shoal::models
