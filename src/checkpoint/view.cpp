#include "checkpoint/view.h"

#include <set>
#include <system_error>

#include "checkpoint/file_names.h"
#include "checkpoint/hdf5_output.h"
#include "checkpoint/row_major_boxes.h"
#include "checkpoint/shard_reader.h"
#include "core/check.h"
#include "core/timer.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"
#include "hdf5/datatype.h"
#include "hdf5/virtual_dataset.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

using hdf5::MappedBox;

struct Plan {
  std::vector<bool> wanted;                   // each tensor of the manifest
  std::vector<std::vector<MappedBox>> boxes;  // of each tensor
  std::set<std::size_t> files;                // that hold some of them
};

// Of the tensor whose first row this is: regions of one tensor lie one after the other in the tensor's one dataset.
std::int64_t numel_in_file(const RegionTable& table, std::size_t first) {
  std::int64_t numel = 0;
  for (std::size_t i = first; i < table.size() && table[i].tensor == table[first].tensor; ++i)
    numel += static_cast<std::int64_t>(table[i].count);
  return numel;
}

void map_region(const RegionRow& row, const TensorSpec& spec, MappedBox source, std::vector<MappedBox>& boxes) {
  const auto begin = static_cast<std::int64_t>(row.begin), count = static_cast<std::int64_t>(row.count);
  for (const Box& box : row_major_boxes(spec.shape, begin, count)) {
    source.start = box.start;
    source.count = box.count;
    boxes.push_back(source);
    source.source_begin += box.numel;
  }
}

void add_file(const RegionTable& table, std::size_t file, const Manifest& manifest, Plan& plan) {
  std::int64_t before = 0, numel = 0;  // of the tensor in this file: elements of the rows before, and of all
  for (std::size_t i = 0; i < table.size(); ++i) {
    const RegionRow& row = table[i];
    if (!plan.wanted[row.tensor]) continue;
    if (i == 0 || table[i - 1].tensor != row.tensor) {
      before = 0;
      numel = numel_in_file(table, i);
    }
    const TensorSpec& spec = manifest.tensors[row.tensor].spec;
    map_region(row, spec, {{}, {}, manifest.files[file].name, shard_dataset_path(spec.name), numel, before},
               plan.boxes[row.tensor]);
    before += static_cast<std::int64_t>(row.count);
    plan.files.insert(file);
  }
}

Plan make_plan(const fs::path& directory, const Manifest& manifest, bool with_optimizer) {
  Plan plan;
  for (const SavedTensor& tensor : manifest.tensors)
    plan.wanted.push_back(with_optimizer || is_model_tensor(tensor.spec.name));
  plan.boxes.resize(manifest.tensors.size());
  std::vector<RegionTable> tables;
  for (std::size_t file = 0; file < manifest.files.size(); ++file) {
    tables.push_back(ShardReader(directory, manifest, file).regions());
    add_file(tables.back(), file, manifest, plan);
  }
  check_coverage(tables, manifest, directory.string());  // boxes that overlap would be read as anything
  return plan;
}

void lay_out(hdf5::File& file, const Manifest& manifest, const Plan& plan) {
  hdf5::write_attribute(file, "format", std::string("shoal-view"));
  hdf5::write_attribute(file, "version", std::int64_t{kFormatVersion});
  hdf5::write_attribute(file, "checkpoint", manifest.id);
  hdf5::write_attribute(file, "step", manifest.step);
  hdf5::write_attribute(file, "requires_files", static_cast<std::int64_t>(plan.files.size()));
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    if (!plan.wanted[i]) continue;
    const TensorSpec& spec = manifest.tensors[i].spec;
    const std::string name = consolidated_dataset_path(spec.name);
    if (plan.boxes[i].empty())
      hdf5::create_contiguous(file, name, hdf5::file_type(spec.dtype).get(), spec.shape);  // has no elements
    else
      hdf5::create_virtual(file, name, spec.dtype, spec.shape, plan.boxes[i]);
  }
  for (const auto& [alias, name] : manifest.aliases)
    file.add_hard_link(consolidated_dataset_path(name), consolidated_dataset_path(alias));
}

std::int64_t box_count(const Plan& plan) {
  std::size_t count = 0;
  for (const auto& boxes : plan.boxes) count += boxes.size();
  return static_cast<std::int64_t>(count);
}

// Returns the bytes.
std::int64_t write_file(const fs::path& path, const Manifest& manifest, const Plan& plan) {
  constexpr std::int64_t kBytesPerBox = 1 << 10;  // at most: names and two selections
  OutputFile output = create_hdf5_output(path, manifest.tensors.size(), box_count(plan) * kBytesPerBox,
                                         [&](hdf5::File& file) { lay_out(file, manifest, plan); });
  const std::int64_t bytes = output.size();
  output.close();
  return bytes;
}

}  // namespace

ViewReport write_view(const fs::path& directory, const Manifest& manifest, bool with_optimizer) {
  const Timer timer;
  SHOAL_CHECK(
      static_cast<std::int64_t>(manifest.files.size()) <= kMostViewFiles, OptionError,
      "{} consists of {} files, and a view shows at most {}: HDF5 keeps all of them open, and shows wrong values "
      "without a word where it may not; make one file with shoal ckpt consolidate, or fewer with shoal ckpt "
      "reshard",
      directory.string(), manifest.files.size(), kMostViewFiles);
  const Plan plan = make_plan(directory, manifest, with_optimizer);
  ViewReport report{directory / kViewName, 0, static_cast<std::int64_t>(plan.files.size()), box_count(plan), 0, 0};
  for (const bool wanted : plan.wanted) report.tensors += wanted;
  const fs::path part = report.path.string() + ".part";
  try {
    report.bytes = write_file(part, manifest, plan);
    rename_path(part, report.path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(part, ignored);
    throw;
  }
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint
