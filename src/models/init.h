// Initial weights that depend on the seed and the parameter's name alone.
#pragma once

#include <cstdint>

namespace torch::nn {
class Module;
}

namespace shoal::models {

// Draws the parameters of all Linear, Conv1d … Conv3d, ConvTranspose and Embedding modules in `root` from torch's
// default distributions, each parameter from a CPU generator of its own that is seeded by
// hash_combine(hash_combine(hash_string("initial weights"), seed), hash_string(FQN)). Neither the number of ranks nor
// what other parameters there are changes a weight. A tied parameter is drawn once, under its first name. Other
// modules keep what their constructor gave them. The parameters must be whole, on the CPU.
void initialize_parameters(torch::nn::Module& root, std::uint64_t seed);

}  // namespace shoal::models
