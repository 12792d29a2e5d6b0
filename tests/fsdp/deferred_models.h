// Modules whose constructors initialise in many ways, each by name.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace shoal::testing {

struct Construction {
  std::string name;
  std::function<std::shared_ptr<torch::nn::Module>()> build;
};

// One module with the parameters and buffers that `fill` gives it.
using Fill = std::function<void(torch::nn::Module&)>;
std::shared_ptr<torch::nn::Module> module_of(const Fill& fill);

std::vector<Construction> library_modules();       // of torch::nn
std::vector<Construction> initialisers();          // of torch::nn::init
std::vector<Construction> passes();                // over a module after its construction
std::vector<Construction> unusual_constructors();  // generators, pointers, control flow by values, casts

}  // namespace shoal::testing
