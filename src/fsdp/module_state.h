// What a sharded module is, as a whole: its state dict, its buffers, its printed tree, the norm of its gradient.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/gradient_norm.h"
#include "fsdp/state_memory.h"
#include "shard/state_dict.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace shoal::fsdp {

class Runtime;

class ModuleState {
 public:
  // `aliases`: {alias, name} of tied parameters, FQNs.
  ModuleState(std::shared_ptr<torch::nn::Module> module, Runtime& runtime, std::string policy,
              std::vector<std::pair<std::string, std::string>> aliases);

  // Buffers go to `device`, floating ones as what the policy asks for; each stays the tensor that the module knows.
  void place_buffers(c10::Device device) const;
  std::string dtypes() const;  // see FullyShardedModule
  void check_dtypes() const;   // InternalError where a tensor's type is not the one that the policy asks for

  StateDict state_dict(StateMemory memory) const;  // parameters and buffers in the module's order
  std::int64_t bytes() const;                      // of all of them, whole
  void broadcast_buffers() const;                  // collective over the mesh; everybody's become rank 0's
  void sync_buffers() const;                       // collective over the mesh; see FullyShardedModule
  // See GradientNorm::value().
  double grad_norm(double grad_scale) { return norm_.value(grad_scale); }
  std::string print() const;
  std::int64_t parameter_count() const;

 private:
  std::vector<std::pair<std::string, at::Tensor>> buffers() const;  // FQN and buffer, each once

  std::shared_ptr<torch::nn::Module> module_;
  Runtime* runtime_;
  std::string policy_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  GradientNorm norm_;
};

}  // namespace shoal::fsdp
