#include "fsdp/activation_plan.h"

#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <vector>

#include "fsdp/mixed_precision.h"
#include "fsdp/recompute.h"
#include "fsdp/saved_offload.h"
#include "fsdp/torch_internals_meta.h"
#include "fsdp/unit.h"
#include "fsdp/unit_plan.h"
#include "fsdp/unit_storage.h"

namespace shoal::fsdp {
namespace {

// LibTorch's allocator for GPUs gives out multiples of this.
constexpr std::int64_t kGpuGranularity = 512;

// Its units have storages that are marked as those of a sharded module are, so that recomputation and offload follow
// the same operators; gradients go as they come, into buffers that another plan counts.
class SymbolicModule final : public torch_internals::StorageOwner {
 public:
  SymbolicModule(torch::nn::Module& module, const WrapPolicy& policy, const FullyShardOptions& options);

  at::Tensor forward(const std::function<at::Tensor()>& loss);
  std::int64_t host_bytes() const { return offload_ ? offload_->host_bytes() : 0; }
  void before_operator(std::span<torch_internals::StorageUser* const> users) override;

 private:
  void add_flat(Unit& unit, const std::vector<ModuleParameter>& members, const FullyShardOptions& options);

  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<UnitStorage>> storages_;
  std::vector<std::shared_ptr<void>> hooks_;
  std::unique_ptr<Recompute> recompute_;
  std::unique_ptr<SavedOffload> offload_;
};

SymbolicModule::SymbolicModule(torch::nn::Module& module, const WrapPolicy& policy, const FullyShardOptions& options)
    : recompute_(make_recompute(options.activation_checkpoint, at::kMeta)),
      offload_(make_saved_offload(options.activation_offload, at::kMeta)) {
  if (recompute_ && offload_) recompute_->keep_inputs_by(*offload_);
  const UnitPlan plan = plan_units(module, policy);
  for (const std::string& fqn : plan.unit_fqns) {
    const auto parameters = plan.units.find(fqn);
    if (parameters == plan.units.end()) continue;
    units_.push_back(std::make_unique<Unit>(fqn, static_cast<int>(units_.size())));
    for (const auto& members : flats_of(parameters->second)) add_flat(*units_.back(), members, options);
    if (recompute_) recompute_->add_unit(*units_.back());
  }
  for (const at::Tensor& buffer : module.buffers()) {
    if (!buffer.defined() || buffer.is_meta()) continue;
    const bool converted = buffer.is_floating_point() && options.mixed_precision.buffer_dtype;
    const at::ScalarType type = converted ? *options.mixed_precision.buffer_dtype : buffer.scalar_type();
    torch_internals::become(buffer, at::empty(buffer.sizes(), at::TensorOptions(at::kMeta).dtype(type)));
  }
}

void SymbolicModule::add_flat(Unit& unit, const std::vector<ModuleParameter>& members,
                              const FullyShardOptions& options) {
  std::int64_t numel = 0;
  for (const ModuleParameter& member : members) numel += member.tensor.numel();
  const at::ScalarType type = flat_dtypes(members[0].tensor.scalar_type(), options).params;
  storages_.push_back(std::make_unique<UnitStorage>(*this, unit, numel, type, at::kMeta, "a plan has no values"));
  UnitStorage& storage = *storages_.back();
  storage.lend_memory(&storage);  // any address: nobody reads there
  std::int64_t begin = 0;
  for (const ModuleParameter& member : members) {
    const at::Tensor place = storage.flat().narrow(0, begin, member.tensor.numel()).view(member.tensor.sizes());
    begin += member.tensor.numel();
    torch_internals::become(member.tensor, place);
    if (!member.tensor.requires_grad()) continue;
    hooks_.push_back(
        torch_internals::on_gradient(member.tensor, [parameter = member.tensor] { parameter.mutable_grad().reset(); }));
  }
}

void SymbolicModule::before_operator(std::span<torch_internals::StorageUser* const> users) {
  if (recompute_) recompute_->before_operator(users);
  if (offload_) offload_->before_operator(users);
}

at::Tensor SymbolicModule::forward(const std::function<at::Tensor()>& loss) {
  const RecomputeScope recompute(recompute_.get());
  const OffloadScope offload(offload_.get(), recompute_.get());
  return loss();
}

// LibTorch's messages go on with advice and, on further lines, with the place.
std::string first_sentence_of(const std::exception& error) {
  const std::string text = error.what(), line = text.substr(0, text.find('\n'));
  return line.substr(0, line.find(". "));
}

}  // namespace

ActivationPlan plan_activations(torch::nn::Module& module, const WrapPolicy& policy, const FullyShardOptions& options,
                                bool on_gpu, const std::function<at::Tensor()>& loss) {
  ActivationPlan plan;
  try {
    const torch_internals::MetaOperators operators(on_gpu);
    SymbolicModule symbolic(module, policy, options);
    const torch_internals::MetaMemory memory(on_gpu ? kGpuGranularity : 1);
    const torch_internals::InterceptScope intercept;
    at::Tensor sum = symbolic.forward(loss);
    plan.kept = memory.live();
    sum.backward();
    sum.reset();
    plan.peak = memory.peak();
    plan.host = symbolic.host_bytes();
  } catch (const std::exception& error) {
    plan = {.unknown = first_sentence_of(error)};
  }
  return plan;
}

}  // namespace shoal::fsdp
