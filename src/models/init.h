// Initial weights that depend on the seed and the parameter's name alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

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

// Gives every parameter of `root` its values, as transformers do: one of two dimensions or more is drawn from
// N(0, std_of(FQN)) by core/counter_normal.h, on all threads, with the number that seeds the generators above as the
// key; of the vectors, those named "bias" become 0, the others 1.
void initialize_normal(torch::nn::Module& root, std::uint64_t seed,
                       const std::function<double(const std::string& fqn)>& std_of);

}  // namespace shoal::models
