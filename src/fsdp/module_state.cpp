#include "fsdp/module_state.h"

#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/check.h"
#include "fsdp/host_memory.h"
#include "fsdp/region_memory.h"
#include "fsdp/runtime.h"

namespace shoal::fsdp {
namespace {

using torch_internals::dtype_of;

// torch::nn::LinearImpl -> Linear
std::string class_name(const torch::nn::Module& module) {
  std::string name = module.name();
  if (const auto colons = name.rfind("::"); colons != std::string::npos) name.erase(0, colons + 2);
  if (name.ends_with("Impl")) name.erase(name.size() - 4);
  return name;
}

std::int64_t trained_and_frozen(const Unit& unit) {
  std::int64_t n = 0;
  for (const auto& flat : unit.flats()) n += flat->layout().numel();
  return n;
}

}  // namespace

ModuleState::ModuleState(std::shared_ptr<torch::nn::Module> module, Runtime& runtime, std::string policy,
                         std::vector<std::pair<std::string, std::string>> aliases)
    : module_(std::move(module)),
      runtime_(&runtime),
      policy_(std::move(policy)),
      aliases_(std::move(aliases)),
      norm_(runtime) {}

std::vector<std::pair<std::string, at::Tensor>> ModuleState::buffers() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  std::unordered_set<const void*> seen;
  for (const auto& item : module_->named_buffers())
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      all.emplace_back(item.key(), item.value());
  return all;
}

StateDict ModuleState::state_dict(StateMemory memory) const {
  StateDict state;
  std::unordered_map<std::string, ShardedTensor> by_name;
  runtime_->for_each_flat([&](FlatParameter& flat) {
    StateDict part = flat.state_dict("model/", flat.master(), memory);
    part.on_loaded.push_back([&flat] { flat.master_changed(); });
    for (ShardedTensor& t : part.tensors) by_name.emplace(t.spec.name, std::move(t));
    part.tensors.clear();
    state.append(std::move(part));
  });
  for (const auto& [fqn, buffer] : buffers()) {
    ShardedTensor t;
    t.spec = {"model/" + fqn, dtype_of(buffer.scalar_type()), buffer.sizes().vec()};
    t.region = RegionMemory(buffer, memory, state).region(0, buffer.numel(), 0);
    t.saves = runtime_->mesh().world().rank() == 0;
    t.changes_in_forward = true;
    by_name.emplace(t.spec.name, std::move(t));
  }
  // The order of torch's state_dict(): module by module, parameters before buffers.
  const auto take = [&](const std::string& prefix, const auto& items) {
    for (const auto& item : items) {
      const auto found = by_name.find("model/" + (prefix.empty() ? item.key() : prefix + "." + item.key()));
      if (found == by_name.end()) continue;  // a tied name
      state.tensors.push_back(std::move(found->second));
      by_name.erase(found);
    }
  };
  for (const auto& module : module_->named_modules()) {
    take(module.key(), module.value()->named_parameters(/*recurse=*/false));
    take(module.key(), module.value()->named_buffers(/*recurse=*/false));
  }
  for (const auto& [alias, name] : aliases_) state.aliases.emplace_back("model/" + alias, "model/" + name);
  return state;
}

std::int64_t ModuleState::bytes() const {
  std::int64_t bytes = 0;
  runtime_->for_each_flat(
      [&](const FlatParameter& flat) { bytes += flat.layout().numel() * flat.master().element_size(); });
  for (const auto& [fqn, buffer] : buffers()) bytes += static_cast<std::int64_t>(buffer.nbytes());
  return bytes;
}

void ModuleState::place_buffers(at::Device device) const {
  const std::optional<at::ScalarType> asked = runtime_->options().mixed_precision.buffer_dtype;
  const at::NoGradGuard no_grad;
  for (const auto& [fqn, buffer] : buffers()) {
    const at::ScalarType is = buffer.scalar_type();
    const at::ScalarType type = buffer.is_floating_point() ? asked.value_or(is) : is;
    if (type != is || buffer.device() != device) buffer.set_data(buffer.to(device, type));
  }
}

std::string ModuleState::dtypes() const {
  std::set<std::string_view> parameters, masters, sent, summed, floating_buffers;
  const auto add = [](std::set<std::string_view>& names, at::ScalarType type) {
    names.insert(name_of(dtype_of(type)));
  };
  runtime_->for_each_flat([&](const FlatParameter& flat) {
    for (const ModuleParameter& p : flat.parameters()) add(parameters, p.tensor.scalar_type());
    add(masters, flat.master().scalar_type());
    if (!flat.trained()) return;
    add(sent, flat.dtypes().sent());
    add(summed, flat.dtypes().reduced);
  });
  for (const auto& [fqn, buffer] : buffers())
    if (buffer.is_floating_point()) add(floating_buffers, buffer.scalar_type());
  std::string text =
      fmt::format("parameters {}, masters {}", fmt::join(parameters, " and "), fmt::join(masters, " and "));
  if (!summed.empty() && sent == summed) text += fmt::format(", gradients reduced in {}", fmt::join(summed, " and "));
  if (sent != summed)
    text +=
        fmt::format(", gradients {} on the wire, summed in {}", fmt::join(sent, " and "), fmt::join(summed, " and "));
  if (!floating_buffers.empty()) text += fmt::format(", buffers {}", fmt::join(floating_buffers, " and "));
  return text;
}

void ModuleState::check_dtypes() const {
  const auto check = [](const char* what, const std::string& name, at::ScalarType is, at::ScalarType asked) {
    SHOAL_CHECK(is == asked, InternalError, "{} '{}' is {}, where {} was asked for", what, name, c10::toString(is),
                c10::toString(asked));
  };
  runtime_->for_each_flat([&](const FlatParameter& flat) {
    for (const ModuleParameter& p : flat.parameters())
      check("parameter", p.fqn, p.tensor.scalar_type(), flat.dtypes().params);
    check("the master of unit", flat.unit().name(), flat.master().scalar_type(), flat.dtypes().masters);
    if (const at::Tensor& gathered = flat.gathered_shard(); gathered.defined())
      check("what is gathered of unit", flat.unit().name(), gathered.scalar_type(), flat.dtypes().params);
  });
  const std::optional<at::ScalarType> type = runtime_->options().mixed_precision.buffer_dtype;
  for (const auto& [fqn, buffer] : buffers())
    if (type && buffer.is_floating_point()) check("buffer", fqn, buffer.scalar_type(), *type);
}

void ModuleState::broadcast_buffers() const {
  for (const auto& [fqn, buffer] : buffers()) {
    runtime_->mesh().shard().broadcast(buffer.data_ptr(), buffer.numel(), dtype_of(buffer.scalar_type()), 0)->wait();
    runtime_->mesh()
        .replicate()
        .broadcast(buffer.data_ptr(), buffer.numel(), dtype_of(buffer.scalar_type()), 0)
        ->wait();
  }
}

void ModuleState::sync_buffers() const {
  const at::NoGradGuard no_grad;
  comm::DeviceMesh& mesh = runtime_->mesh();
  const int ranks = mesh.world().size();
  if (ranks == 1) return;
  for (const auto& [fqn, buffer] : buffers()) {
    const DType dtype = dtype_of(buffer.scalar_type());
    if (is_floating(dtype)) {
      mesh.shard().all_reduce(buffer.data_ptr(), buffer.numel(), dtype, comm::ReduceOp::sum)->wait();
      mesh.replicate().all_reduce(buffer.data_ptr(), buffer.numel(), dtype, comm::ReduceOp::sum)->wait();
      buffer.div_(ranks);
    } else {
      mesh.shard().broadcast(buffer.data_ptr(), buffer.numel(), dtype, 0)->wait();
      mesh.replicate().broadcast(buffer.data_ptr(), buffer.numel(), dtype, 0)->wait();
    }
  }
}

std::int64_t ModuleState::parameter_count() const {
  std::int64_t n = 0;
  for (const auto& unit : runtime_->units()) n += trained_and_frozen(*unit);
  return n;
}

std::string ModuleState::print() const {
  std::unordered_map<std::string, const Unit*> by_fqn;
  for (const auto& unit : runtime_->units()) by_fqn.emplace(unit->fqn(), unit.get());
  std::string text;
  for (const auto& item : module_->named_modules()) {
    const std::string& fqn = item.key();
    const auto depth = fqn.empty() ? 0 : 1 + std::count(fqn.begin(), fqn.end(), '.');
    const std::string own = fqn.substr(fqn.rfind('.') == std::string::npos ? 0 : fqn.rfind('.') + 1);
    text += std::string(static_cast<std::size_t>(2 * depth), ' ');
    text += own.empty() ? class_name(*item.value()) : fmt::format("({}): {}", own, class_name(*item.value()));
    if (const auto unit = by_fqn.find(fqn); unit != by_fqn.end())
      text += fmt::format("  [FSDP unit {}: {} parameters]", unit->second->index(), trained_and_frozen(*unit->second));
    text += '\n';
  }
  const comm::DeviceMesh& mesh = runtime_->mesh();
  text += fmt::format("{} FSDP units by --wrap {}, {} parameters, mesh {} x {} (replicate x shard)",
                      runtime_->units().size(), policy_, parameter_count(), mesh.replicate_size(), mesh.shard_size());
  return text;
}

}  // namespace shoal::fsdp
