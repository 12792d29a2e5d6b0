// Weights in HDF5: what 'shoal ckpt consolidate' writes, and any file whose datasets, in groups or not, have the names
// of parameters. Plain datasets are read by pread, all others through HDF5.
#include <algorithm>

#include "checkpoint/file_names.h"
#include "checkpoint/row_major_boxes.h"
#include "checkpoint/weights_file.h"
#include "core/check.h"
#include "core/file_io.h"
#include "hdf5/any_dataset.h"
#include "hdf5/attribute.h"

namespace shoal::checkpoint {
namespace {

constexpr std::string_view kOptimizerGroup = "/optimizer/";
constexpr std::string_view kConsolidated = "shoal-consolidated", kShard = "shoal-checkpoint", kView = "shoal-view";

// What HDF5 says of a file that others have written is damage of the file.
template <typename Function>
auto as_damage(const Function& function) {
  try {
    return function();
  } catch (const hdf5::Hdf5Error& error) {
    throw CheckpointError("{}: it is truncated or damaged", error.what());
  }
}

std::string format_attribute(const hdf5::File& file) {
  try {
    return hdf5::read_string_attribute(file, "format");
  } catch (const hdf5::Hdf5Error&) {
    return "";  // not of ours
  }
}

// "/h/0/weight" → "h.0.weight"
std::string name_in_groups(const std::string& path) {
  std::string name = path.substr(1);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

struct Source {
  InputFile bytes;
  hdf5::File file;
  std::vector<hdf5::AnyDataset> datasets;  // of each tensor
};

void read_tensor(const Source& source, std::size_t tensor, std::int64_t begin, std::int64_t count, std::byte* into) {
  const auto& [path, place, problem] = source.datasets[tensor];
  const std::int64_t element = place.element_bytes;
  if (place.file_offset >= 0)
    return source.bytes.read_at(place.file_offset + begin * element, into, static_cast<std::size_t>(count * element));
  as_damage([&] {
    for (const Box& box : row_major_boxes(place.shape, begin, count)) {
      hdf5::read_box(source.file, path, *place.dtype, box.start, box.count, into);
      into += box.numel * element;
    }
  });
}

void add(hdf5::AnyDataset dataset, bool ours, WeightsContents& contents, Source& source) {
  std::string name = ours ? parameter_of_dataset(dataset.path) : name_in_groups(dataset.path);
  if (!dataset.problem.empty()) {
    contents.others.push_back({std::move(name), dataset.problem});
    return;
  }
  SHOAL_CHECK(formats::bytes_of(*dataset.placement.dtype, dataset.placement.shape), CheckpointError,
              "{}: {}: the shape is impossible: it is damaged", source.file.path(), dataset.path);
  contents.tensors.push_back({std::move(name), *dataset.placement.dtype, dataset.placement.shape});
  source.datasets.push_back(std::move(dataset));
}

}  // namespace

WeightsContents open_hdf5_weights(const std::filesystem::path& path) {
  auto source = std::make_shared<Source>(
      Source{InputFile(path), as_damage([&] { return hdf5::File::open_for_reading(path); }), {}});
  const std::string format = format_attribute(source->file);
  SHOAL_CHECK(format != kShard, CheckpointError, "{} is one rank's part of a checkpoint: give the checkpoint's folder",
              path.string());
  SHOAL_CHECK(
      format != kView, CheckpointError,
      "{} is a view of a checkpoint, in which missing files would read as nothing: give the checkpoint's folder",
      path.string());
  const bool ours = format == kConsolidated;
  WeightsContents contents{ours ? "consolidated HDF5" : "HDF5", {}, {}, {}, {}};
  for (hdf5::AnyDataset& dataset : as_damage([&] { return hdf5::find_datasets(source->file); }))
    if (!ours || !dataset.path.starts_with(kOptimizerGroup)) add(std::move(dataset), ours, contents, *source);
  contents.read = [source](std::size_t tensor, std::int64_t begin, std::int64_t count, std::byte* into) {
    read_tensor(*source, tensor, begin, count, into);
  };
  return contents;
}

}  // namespace shoal::checkpoint
