// Plain N-D datasets under the parameters' names; tied names are hard links, training state is an attribute.
#include <algorithm>
#include <map>

#include "checkpoint/export_layout.h"
#include "checkpoint/file_names.h"
#include "checkpoint/hdf5_output.h"
#include "core/check.h"
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

std::vector<ExportPlace> write_structure(hdf5::File& file, const Manifest& manifest, const ExportPlan& plan) {
  write_header(file, manifest);
  std::vector<ExportPlace> places;
  for (const auto& [source, spec, state] : plan.tensors) {
    const hdf5::DatatypeHandle type = hdf5::file_type(spec.dtype);
    const auto place = hdf5::create_contiguous(file, hdf5_dataset_path(spec.name, state), type.get(), spec.shape);
    SHOAL_ASSERT(place.file_offset >= 0 || spec.numel() == 0);
    places.push_back({0, std::max<std::int64_t>(place.file_offset, 0)});
  }
  for (const auto& [alias, tensor] : plan.aliases)
    file.add_hard_link(hdf5_dataset_path(plan.tensors[tensor].spec.name, ""), hdf5_dataset_path(alias, ""));
  return places;
}

// HDF5 hands its file out in whole pages: without what the tensors' bytes are to cover.
std::vector<ExportRecord> beside_data(const Hdf5Layout& made, const ExportPlan& plan,
                                      const std::vector<ExportPlace>& places) {
  std::map<std::int64_t, std::int64_t> data;  // begin → end
  for (std::size_t i = 0; i < places.size(); ++i)
    if (const std::int64_t bytes = bytes_of(plan.tensors[i]); bytes > 0)
      data[places[i].offset] = places[i].offset + bytes;
  std::vector<ExportRecord> records;
  for (const auto& [offset, bytes] : made.structure) {
    const std::int64_t end = offset + static_cast<std::int64_t>(bytes.size());
    auto next = data.upper_bound(offset);
    std::int64_t at = next == data.begin() ? offset : std::max(offset, std::prev(next)->second);
    while (at < end) {
      const std::int64_t until = next == data.end() ? end : std::min(end, next->first);
      if (until > at)
        records.push_back(
            {{0, at}, bytes.substr(static_cast<std::size_t>(at - offset), static_cast<std::size_t>(until - at))});
      if (next == data.end()) break;
      at = (next++)->second;
    }
  }
  return records;
}

}  // namespace

std::string hdf5_dataset_path(const std::string& parameter, const std::string& state) {
  return consolidated_dataset_path(state.empty() ? std::string(kModelPrefix) + parameter
                                                 : fmt::format("{}{}/{}", kOptimizerPrefix, state, parameter));
}

ExportLayout lay_out_hdf5(const std::filesystem::path& output, const Manifest& manifest, const ExportPlan& plan) {
  ExportLayout layout;
  const Hdf5Layout made = lay_out_hdf5_file(output, plan.tensors.size(), plan.tensor_bytes(), [&](hdf5::File& file) {
    layout.places = write_structure(file, manifest, plan);
  });
  layout.files = {{output, made.bytes}};
  layout.records = [records = beside_data(made, plan, layout.places)](const std::vector<WrittenPart>&) {
    return records;
  };
  return layout;
}

}  // namespace shoal::checkpoint
