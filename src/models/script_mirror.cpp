#include "models/script_mirror.h"

#include <torch/script.h>
#include <torch/torch.h>

#include <map>
#include <unordered_map>
#include <vector>

namespace shoal::models {
namespace {

namespace jit = torch::jit;
using torch::nn::Module;

// "__torch__.transformers.models.gpt2.modeling_gpt2.___torch_mangle_12.GPT2Block" -> "GPT2Block"
std::string class_name(const jit::Module& script) {
  const auto name = script.type()->name();
  return name ? name->name() : "Module";
}

class Mirror {
 public:
  explicit Mirror(const std::set<std::string>& left_out) : left_out_(&left_out) {}

  std::shared_ptr<Module> of(const jit::Module& script, const std::string& prefix) {
    auto& node = nodes_[script._ivalue().get()];
    if (node) return node;
    const auto made = node = std::make_shared<Module>(class_name(script));
    for (const auto& parameter : script.named_parameters(/*recurse=*/false)) {
      const at::Tensor tensor = tied(script, parameter.name, parameter.value);
      made->register_parameter(parameter.name, tensor, tensor.requires_grad());
    }
    for (const auto& buffer : script.named_buffers(/*recurse=*/false))
      if (!left_out_->contains(prefix + buffer.name)) made->register_buffer(buffer.name, buffer.value);
    for (const auto& child : script.named_children())
      made->register_module(child.name, of(child.value, prefix + child.name + "."));
    return made;
  }

 private:
  // The first parameter with the same elements, put in the place of `tensor`.
  at::Tensor tied(const jit::Module& script, const std::string& name, const at::Tensor& tensor) {
    if (tensor.numel() == 0) return tensor;
    for (const at::Tensor& first : by_address_[tensor.const_data_ptr()]) {
      if (first.sizes() != tensor.sizes() || first.strides() != tensor.strides() || first.dtype() != tensor.dtype())
        continue;
      script._ivalue()->setAttr(name, first);
      return first;
    }
    by_address_[tensor.const_data_ptr()].push_back(tensor);
    return tensor;
  }

  const std::set<std::string>* left_out_;
  std::unordered_map<const void*, std::shared_ptr<Module>> nodes_;
  std::unordered_map<const void*, std::vector<at::Tensor>> by_address_;
};

}  // namespace

std::shared_ptr<Module> mirror_of(const jit::Module& script, const std::set<std::string>& left_out) {
  return Mirror(left_out).of(script, "");
}

}  // namespace shoal::models
