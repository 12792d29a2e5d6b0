#include "models/script_device.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/script.h>

#include <string>

namespace shoal::models {
namespace {

namespace jit = torch::jit;

void set_constant(jit::Node& node, c10::Device device) {
  const auto value = c10::attr::value;
  if (!node.hasAttribute(value)) return;
  if (node.output()->type()->kind() == c10::TypeKind::DeviceObjType) {
    node.s_(value, device.str());
  } else if (node.kindOf(value) == jit::AttributeKind::t && node.t(value).dim() > 0) {
    // A number as a tensor stays on the host: it works with any device, and reading it costs no synchronisation.
    node.t_(value, node.t(value).to(device));
  }
}

void set_constants(jit::Block& block, c10::Device device) {
  for (jit::Node* node : block.nodes()) {
    if (node->kind() == c10::prim::Constant) set_constant(*node, device);
    for (jit::Block* inner : node->blocks()) set_constants(*inner, device);
  }
}

}  // namespace

void set_script_device(jit::Module& script, c10::Device device) {
  for (jit::Function* function : script._ivalue()->compilation_unit()->get_functions())
    if (auto* graph = jit::tryToGraphFunction(*function)) set_constants(*graph->graph()->block(), device);
  for (const auto& buffer : script.named_buffers()) buffer.value.set_data(buffer.value.to(device));
}

}  // namespace shoal::models
