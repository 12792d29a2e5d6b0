#include "checkpoint/export_plan.h"

#include <algorithm>
#include <map>

#include "checkpoint/chosen_names.h"
#include "checkpoint/file_names.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace {

// For each of the model's tensors its own name and those tied to it, as far as they are wanted.
std::map<std::string, std::vector<std::string>> wanted_names(const Manifest& manifest, ChosenNames& names) {
  std::map<std::string, std::vector<std::string>> wanted;
  const auto add = [&](const std::string& tensor, const std::string& name) {
    const std::string own(parameter_name(name));
    if (names.wants(own)) wanted[tensor].push_back(own);
  };
  for (const auto& [spec, rule] : manifest.tensors)
    if (is_model_tensor(spec.name)) add(spec.name, spec.name);
  for (const auto& [alias, name] : manifest.aliases) add(name, alias);
  names.check_used();
  return wanted;
}

std::string state_of(const std::string& name) {
  const std::size_t begin = kOptimizerPrefix.size();
  return name.substr(begin, name.find('/', begin) - begin);
}

DType exported_type(DType dtype, const ExportSelection& selection) {
  return selection.dtype && is_floating(dtype) ? *selection.dtype : dtype;
}

}  // namespace

std::int64_t bytes_of(const ExportTensor& tensor) { return tensor.spec.numel() * size_of(tensor.spec.dtype); }

std::int64_t ExportPlan::tensor_bytes() const {
  std::int64_t bytes = 0;
  for (const ExportTensor& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

ExportPlan plan_export(const Manifest& manifest, const ExportSelection& selection) {
  ChosenNames names(selection.select, selection.rename);
  const auto wanted = wanted_names(manifest, names);
  ExportPlan plan;
  std::map<std::string, std::string> exported;  // by the model tensor's name in the manifest
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorSpec& spec = manifest.tensors[i].spec;
    const auto found = wanted.find(spec.name);
    if (!is_model_tensor(spec.name) || found == wanted.end()) continue;
    const std::vector<std::string>& own = found->second;
    exported[spec.name] = names.renamed(own.front());
    for (std::size_t alias = 1; alias < own.size(); ++alias)
      plan.aliases.emplace_back(names.renamed(own[alias]), plan.tensors.size());
    plan.tensors.push_back({i, {exported[spec.name], exported_type(spec.dtype, selection), spec.shape}, ""});
  }
  SHOAL_CHECK(!plan.tensors.empty() || selection.select.empty(), OptionError, "--select leaves nothing to export");
  for (std::size_t i = 0; selection.with_optimizer && i < manifest.tensors.size(); ++i) {
    const TensorSpec& spec = manifest.tensors[i].spec;
    if (is_model_tensor(spec.name)) continue;
    const auto found = exported.find(std::string(kModelPrefix) + std::string(parameter_name(spec.name)));
    if (found != exported.end())
      plan.tensors.push_back({i, {found->second, spec.dtype, spec.shape}, state_of(spec.name)});
  }
  return plan;
}

void write_aliases_out(ExportPlan& plan) {
  for (const auto& [alias, tensor] : plan.aliases) {
    ExportTensor copy = plan.tensors[tensor];
    copy.spec.name = alias;
    plan.tensors.push_back(std::move(copy));
  }
  plan.aliases.clear();
}

}  // namespace shoal::checkpoint
