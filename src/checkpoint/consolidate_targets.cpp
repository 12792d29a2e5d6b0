#include "checkpoint/consolidate_targets.h"

#include <memory>

#include "checkpoint/file_names.h"
#include "checkpoint/hdf5_output.h"
#include "core/check.h"
#include "formats/torch_zip.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/datatype.h"

namespace shoal::checkpoint {
namespace {

void write_header(hdf5::File& file, const Manifest& manifest) {
  hdf5::write_attribute(file, "format", std::string("shoal-consolidated"));
  hdf5::write_attribute(file, "version", std::int64_t{kFormatVersion});
  hdf5::write_attribute(file, "checkpoint", manifest.id);
  hdf5::write_attribute(file, "step", manifest.step);
  hdf5::write_attribute(file, "training_state", manifest.training_state);
}

// Where the bytes of each tensor go.
std::vector<std::int64_t> lay_out(hdf5::File& file, const Manifest& manifest, bool with_optimizer) {
  write_header(file, manifest);
  std::vector<std::int64_t> offsets;
  for (const auto& [spec, rule] : manifest.tensors) {
    std::int64_t& offset = offsets.emplace_back(kNotWanted);
    if (!with_optimizer && !is_model_tensor(spec.name)) continue;
    const std::string name = consolidated_dataset_path(spec.name);
    const auto place = hdf5::create_contiguous(file, name, hdf5::file_type(spec.dtype).get(), spec.shape);
    SHOAL_ASSERT(place.file_offset >= 0 || spec.numel() == 0);
    offset = std::max<std::int64_t>(place.file_offset, 0);
  }
  for (const auto& [alias, name] : manifest.aliases)
    file.add_hard_link(consolidated_dataset_path(name), consolidated_dataset_path(alias));
  return offsets;
}

struct TorchPlan {
  std::vector<formats::TorchTensor> tensors;
  std::vector<formats::TorchStorage> storages;
  std::vector<std::size_t> storage_of;  // each tensor of the manifest; kNoStorage: left out
};
constexpr std::size_t kNoStorage = static_cast<std::size_t>(-1);

TorchPlan plan_torch(const Manifest& manifest) {
  TorchPlan plan;
  std::map<std::string, std::size_t> storage_by_name;
  for (const auto& [spec, rule] : manifest.tensors) {
    plan.storage_of.push_back(is_model_tensor(spec.name) ? plan.storages.size() : kNoStorage);
    if (!is_model_tensor(spec.name)) continue;
    storage_by_name[spec.name] = plan.storages.size();
    plan.tensors.push_back({std::string(parameter_name(spec.name)), plan.storages.size()});
    plan.storages.push_back({spec.dtype, spec.shape});
  }
  for (const auto& [alias, name] : manifest.aliases) {
    const auto found = storage_by_name.find(name);
    SHOAL_CHECK(found != storage_by_name.end(), CheckpointError, "'{}' is another name of '{}', which is not there",
                alias, name);
    plan.tensors.push_back({std::string(parameter_name(alias)), found->second});
  }
  return plan;
}

}  // namespace

ConsolidateTarget make_hdf5_target(const std::filesystem::path& path, const Manifest& manifest, bool with_optimizer) {
  std::vector<std::int64_t> offsets;
  OutputFile output = create_hdf5_output(path, manifest.tensors.size(), manifest.tensor_bytes(),
                                         [&](hdf5::File& file) { offsets = lay_out(file, manifest, with_optimizer); });
  return {std::move(output), std::move(offsets), {}, {}};
}

ConsolidateTarget make_torch_target(const std::filesystem::path& path, const Manifest& manifest) {
  TorchPlan plan = plan_torch(manifest);
  auto zip = std::make_shared<formats::TorchZip>(plan.tensors, plan.storages);
  std::vector<std::int64_t> offsets;
  for (const std::size_t storage : plan.storage_of)
    offsets.push_back(storage == kNoStorage ? kNotWanted : static_cast<std::int64_t>(zip->storage_offset(storage)));
  auto note_piece = [zip, storage_of = std::move(plan.storage_of)](std::size_t tensor, std::int64_t offset,
                                                                   const std::byte* data, std::size_t bytes) {
    zip->note_piece(storage_of[tensor], static_cast<std::uint64_t>(offset), data, bytes);
  };
  return {OutputFile(path), std::move(offsets), std::move(note_piece), [zip] { return zip->records(); }};
}

}  // namespace shoal::checkpoint
