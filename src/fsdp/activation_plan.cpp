#include "fsdp/activation_plan.h"

#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
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

// A unit's parameters. Operators that may leave a gradient where it is sent from find a place there, as they do where
// the engine shards: another plan counts that buffer.
class SymbolicStorage final : public UnitStorage {
 public:
  using UnitStorage::UnitStorage;
  void* gradient_place(std::int64_t begin, std::int64_t /*bytes*/) override {
    return asked_.insert(begin).second ? this : nullptr;  // any address: nobody writes there
  }

 private:
  std::set<std::int64_t> asked_;
};

// Its units have storages that are marked as those of a sharded module are, so that recomputation and offload follow
// the same operators; gradients go as they come, into buffers that another plan counts.
class SymbolicModule final : public torch_internals::StorageOwner {
 public:
  SymbolicModule(torch::nn::Module& module, const WrapPolicy& policy, const FullyShardOptions& options);

  at::Tensor forward(const std::function<at::Tensor()>& loss);
  void backward(const at::Tensor& loss);
  std::int64_t host_bytes() const { return offload_ ? offload_->host_bytes() : 0; }
  std::vector<std::string> idle_in_backward() const;
  void before_operator(std::span<torch_internals::StorageUser* const> users) override;

  // Called in backward for a unit's first gradient and when all of them have come, with how many elements those have.
  std::function<void(GradientEvent, std::int64_t)> happened;

 private:
  struct Waits {
    std::size_t unit;
    std::int64_t elements = 0;
    int gradients = 0, missing = 0;  // of parameters; which have not come yet
  };
  void gradient_arrived(const at::Tensor& parameter, Waits& waits);
  void add_flat(Unit& unit, const std::vector<ModuleParameter>& members, const FullyShardOptions& options);

  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<SymbolicStorage>> storages_;
  std::deque<Waits> waits_;  // hooks refer to them
  std::vector<std::shared_ptr<void>> hooks_;
  std::unique_ptr<Recompute> recompute_;
  std::unique_ptr<SavedOffload> offload_;
  bool in_backward_ = false;
  std::set<const Unit*> used_in_backward_;
};

SymbolicModule::SymbolicModule(torch::nn::Module& module, const WrapPolicy& policy, const FullyShardOptions& options)
    : recompute_(make_recompute(options.activation_checkpoint, at::kMeta)),
      offload_(make_saved_offload(options.activation_offload, at::kMeta)) {
  if (recompute_ && offload_) recompute_->keep_inputs_by(*offload_);
  const UnitPlan plan = plan_units(module, policy);
  for (const UnitMembers& unit : plan.units) {
    waits_.push_back({units_.size()});
    units_.push_back(std::make_unique<Unit>(unit.fqn, static_cast<int>(units_.size()), unit.recomputable));
    for (const auto& members : flats_of(unit.parameters)) add_flat(*units_.back(), members, options);
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
  storages_.push_back(std::make_unique<SymbolicStorage>(*this, unit, numel, type, at::kMeta, "a plan has no values"));
  UnitStorage& storage = *storages_.back();
  storage.lend_memory(&storage);  // any address: nobody reads there
  std::int64_t begin = 0;
  for (const ModuleParameter& member : members) {
    const at::Tensor place = storage.flat().narrow(0, begin, member.tensor.numel()).view(member.tensor.sizes());
    begin += member.tensor.numel();
    torch_internals::become(member.tensor, place);
    if (!member.tensor.requires_grad()) continue;
    Waits& waits = waits_.back();
    waits.elements += member.tensor.numel();
    waits.missing = ++waits.gradients;
    hooks_.push_back(torch_internals::on_gradient(
        member.tensor, [this, parameter = member.tensor, &waits] { gradient_arrived(parameter, waits); }));
  }
}

void SymbolicModule::gradient_arrived(const at::Tensor& parameter, Waits& waits) {
  using Kind = GradientEvent::Kind;
  if (happened && waits.missing == waits.gradients) happened({Kind::first, waits.unit}, 0);
  parameter.mutable_grad().reset();
  if (--waits.missing == 0 && happened) happened({Kind::complete, waits.unit}, waits.elements);
}

void SymbolicModule::before_operator(std::span<torch_internals::StorageUser* const> users) {
  if (recompute_) recompute_->before_operator(users);
  if (offload_) offload_->before_operator(users);
  if (!in_backward_) return;
  for (const torch_internals::StorageUser* user : users)
    used_in_backward_.insert(&static_cast<const UnitStorage*>(user)->unit());
}

at::Tensor SymbolicModule::forward(const std::function<at::Tensor()>& loss) {
  const RecomputeScope recompute(recompute_.get());
  const OffloadScope offload(offload_.get(), recompute_.get());
  return loss();
}

void SymbolicModule::backward(const at::Tensor& loss) {
  in_backward_ = true;
  loss.backward();
}

std::vector<std::string> SymbolicModule::idle_in_backward() const {
  std::vector<std::string> idle;
  for (const auto& unit : units_)
    if (!used_in_backward_.contains(unit.get())) idle.push_back(unit->fqn());
  return idle;
}

// LibTorch's messages go on with advice and, on further lines, with the place.
std::string first_sentence_of(const std::exception& error) {
  const std::string text = error.what(), line = text.substr(0, text.find('\n'));
  return line.substr(0, line.find(". "));
}

}  // namespace

std::int64_t ActivationPlan::on_top(const MemoryPlan& plan, bool on_gpu) const {
  if (!on_gpu || stretches.empty() || stretches.back().elements == 0) return peak;
  std::vector<GradientEvent> events;
  for (const Stretch& stretch : stretches) events.push_back(stretch.end);
  const auto moments = plan.in_flight.moments(events);
  const auto all = static_cast<double>(stretches.back().elements);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const Stretch& stretch = stretches[i];
    const double part = static_cast<double>(stretch.elements) / all;
    const std::int64_t there = plan.accumulation == Accumulation::none
                                   ? static_cast<std::int64_t>(part * static_cast<double>(plan.gradients))
                                   : plan.gradients + plan.kept_gradients;
    most = std::max({most, there + stretch.peak + moments[i].before, there + stretch.left + moments[i].during});
  }
  return std::max<std::int64_t>(0, most - plan.of_gradients());  // gradients may meet in another order than planned
}

ActivationPlan plan_activations(torch::nn::Module& module, const WrapPolicy& policy, const FullyShardOptions& options,
                                bool on_gpu, const std::function<at::Tensor()>& loss) {
  ActivationPlan plan;
  try {
    const torch_internals::MetaOperators operators(on_gpu);
    SymbolicModule symbolic(module, policy, options);
    torch_internals::MetaMemory memory(on_gpu ? kGpuGranularity : 1);
    const torch_internals::InterceptScope intercept;
    at::Tensor sum = symbolic.forward(loss);
    plan.kept = memory.live();
    std::int64_t elements = 0;
    symbolic.happened = [&](GradientEvent event, std::int64_t more) {
      plan.stretches.push_back({elements, memory.take_peak(), memory.live(), event});
      elements += more;
    };
    symbolic.backward(sum);
    sum.reset();
    plan.stretches.push_back({elements, memory.take_peak(), memory.live(), {}});
    plan.peak = memory.peak();
    plan.host = symbolic.host_bytes();
    plan.idle_in_backward = symbolic.idle_in_backward();
  } catch (const std::exception& error) {
    plan = {.unknown = first_sentence_of(error)};
  }
  return plan;
}

}  // namespace shoal::fsdp
