#include "fsdp/torch_internals_saved.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <utility>

namespace shoal::fsdp::torch_internals {
namespace {

using torch::autograd::SavedVariableHooks;

thread_local TensorSaver* g_saver = nullptr;

class Hooks final : public SavedVariableHooks {
 public:
  explicit Hooks(TensorSaver& saver) : saver_(&saver) {}
  void call_pack_hook(const at::Tensor& tensor) override { saved_ = saver_->save(tensor); }
  at::Tensor call_unpack_hook() override { return saved_->restore(); }

 private:
  TensorSaver* saver_;  // lives until the tensor is packed, which is at once
  std::unique_ptr<SavedTensor> saved_;
};

// LibTorch's own engine but for the question what stands in for saved tensors, which is asked of the engine because
// Python's answers it. Never destroyed, like the one it replaces: its threads may outlive static objects.
class HookedEngine final : public torch::autograd::Engine {
 public:
  static Engine& get() {
    static auto* const engine = new HookedEngine;
    return *engine;
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    return g_saver != nullptr ? std::make_unique<Hooks>(*g_saver) : nullptr;
  }
};

// When the program starts: LibTorch starts its threads for GPUs once a process, for the engine of the first backward
// pass, and another engine would have none.
[[maybe_unused]] const bool g_installed = [] {
  torch::autograd::set_default_engine_stub(&HookedEngine::get);
  return true;
}();

}  // namespace

SaveScope::SaveScope(TensorSaver& saver) : outer_(std::exchange(g_saver, &saver)) {}
SaveScope::~SaveScope() { g_saver = outer_; }

at::Tensor without_history(const at::Tensor& tensor) { return at::Tensor(tensor.tensor_data()); }

at::Tensor with_unknown_history(const at::Tensor& tensor) {
  const at::Tensor copy = without_history(tensor);
  torch::autograd::set_history(copy, std::make_shared<torch::autograd::Error>("backward through the graph of a replay",
                                                                              torch::autograd::edge_list()));
  return copy;
}

std::int64_t version_of(const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); }

VersionWatch::VersionWatch(const at::Tensor& tensor) : version_(version_of(tensor)) {
  if (!tensor.is_inference())
    counter_ = std::make_shared<c10::VariableVersion>(tensor.unsafeGetTensorImpl()->version_counter());
}

bool VersionWatch::changed() const {
  return counter_ && static_cast<std::int64_t>(
                         static_cast<const c10::VariableVersion*>(counter_.get())->current_version()) != version_;
}

std::shared_ptr<void> hold_identity(const at::Tensor& tensor) {
  return std::make_shared<c10::weak_intrusive_ptr<c10::StorageImpl>>(tensor.storage().getWeakStorageImpl());
}

}  // namespace shoal::fsdp::torch_internals
