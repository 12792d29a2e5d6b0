// The network of the FSDP lecture: two stacks side by side, each a convolution and a linear layer, summed, then a
// softmax.
#pragma once

#include <cstdint>
#include <memory>

#include "models/model.h"

namespace shoal::models {

// Takes batches of data::MnistDataset. stack1 has a 3 x 3 convolution, stack2 one of 5 x 5, each with 32 channels:
// 401 812 parameters. Initial weights are drawn from torch's default distributions.
std::unique_ptr<Model> make_two_stack_cnn(std::uint64_t seed);

}  // namespace shoal::models
