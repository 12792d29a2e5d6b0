// A TorchScript module as a tree of torch::nn::Module, which is what the sharding engine works on.
#pragma once

#include <memory>
#include <set>
#include <string>

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}

namespace shoal::models {

// Modules without a forward, of the same names and nesting as `script`, whose name() is the Python class
// ("GPT2Block"). They register the same tensors: what is done to a parameter here is done to the script's. A submodule
// that stands in two places is one here too. Two parameters that view the same elements become one tensor, in `script`
// as well: TorchScript files may hold tied weights so. Buffers whose FQN is in `left_out` are not registered.
std::shared_ptr<torch::nn::Module> mirror_of(const torch::jit::Module& script, const std::set<std::string>& left_out);

}  // namespace shoal::models
