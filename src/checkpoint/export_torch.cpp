// A state dict as torch.save() writes it; tied names share a storage.
#include <memory>

#include "checkpoint/export_layout.h"
#include "checkpoint/torch_optimizer.h"
#include "formats/torch_zip.h"

namespace shoal::checkpoint {
namespace {

using formats::TorchStorage;
using formats::TorchTensor;
using formats::TorchValue;

std::vector<TorchTensor> model_tensors(const ExportPlan& plan) {
  std::vector<TorchTensor> tensors;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i)
    if (plan.tensors[i].state.empty()) tensors.push_back({plan.tensors[i].spec.name, i});
  for (const auto& [alias, tensor] : plan.aliases) tensors.push_back({alias, tensor});
  return tensors;
}

TorchValue contents_of(const Manifest& manifest, const ExportPlan& plan, bool with_optimizer,
                       std::vector<TorchStorage>& storages) {
  TorchValue model = formats::state_dict_of(model_tensors(plan));
  if (!with_optimizer) return model;
  TorchValue::Dict all;
  all.add({"model"}, std::move(model));
  all.add({"optimizer"}, optimizer_state_dict(manifest, plan, storages));
  all.add({"step"}, {manifest.step});
  all.add({"training_state"}, {manifest.training_state});
  return {std::move(all)};
}

}  // namespace

ExportLayout lay_out_torch(const std::filesystem::path& output, const Manifest& manifest, const ExportPlan& plan,
                           bool with_optimizer) {
  std::vector<TorchStorage> storages;  // of the plan's tensors, then others
  for (const ExportTensor& tensor : plan.tensors) storages.push_back({tensor.spec.dtype, tensor.spec.shape, ""});
  const TorchValue contents = contents_of(manifest, plan, with_optimizer, storages);
  const formats::TorchZip zip(contents, storages);
  ExportLayout layout;
  layout.files = {{output, static_cast<std::int64_t>(zip.total_bytes())}};
  for (std::size_t i = 0; i < plan.tensors.size(); ++i)
    layout.places.push_back({0, static_cast<std::int64_t>(zip.storage_offset(i))});
  layout.wants_zip_crc = true;
  layout.records = [zip](const std::vector<WrittenPart>& parts) {
    formats::TorchZip finished = zip;
    for (const WrittenPart& part : parts)
      finished.note_checksum(part.tensor, static_cast<std::uint64_t>(part.offset),
                             static_cast<std::uint64_t>(part.bytes), part.zip_crc);
    std::vector<ExportRecord> records;
    for (auto& [offset, bytes] : finished.records())
      records.push_back({{0, static_cast<std::int64_t>(offset)}, std::move(bytes)});
    return records;
  };
  return layout;
}

}  // namespace shoal::checkpoint
