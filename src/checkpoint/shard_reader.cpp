#include "checkpoint/shard_reader.h"

#include <algorithm>

#include "checkpoint/file_names.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "hdf5/attribute.h"
#include "hdf5/dataset.h"

namespace shoal::checkpoint {
namespace {

InputFile open_of_size(const std::filesystem::path& path, std::int64_t bytes) {
  InputFile file = as_damage([&] { return InputFile(path); });
  SHOAL_CHECK(file.size() == bytes, CheckpointError, "{} has {} bytes, {} were written: it is damaged", path.string(),
              file.size(), bytes);
  return file;
}

// Small enough to be in a core's own cache when its checksum is taken, large enough for the calls not to count.
constexpr std::int64_t kReadBytes = 512 << 10;

bool by_tensor(const RegionRow& a, const RegionRow& b) { return a.tensor < b.tensor; }

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& directory, const Manifest& manifest, std::size_t index)
    : manifest_(&manifest),
      path_(directory / manifest.files.at(index).name),
      bytes_(open_of_size(path_, manifest.files[index].bytes)),
      file_(as_damage([&] {
        const auto lock = hdf5::lock_library();
        return hdf5::File::open_for_reading(path_);
      })) {
  const auto lock = hdf5::lock_library();
  as_damage([&] {
    check_header(index);
    read_table(manifest.files[index]);
    read_places();
  });
}

void ShardReader::check_header(std::size_t index) const {
  const std::string id = hdf5::read_string_attribute(file_, "checkpoint");
  SHOAL_CHECK(id == manifest_->id, CheckpointError, "{} belongs to checkpoint {}, not to {}", path_.string(), id,
              manifest_->id);
  const std::int64_t step = hdf5::read_int64_attribute(file_, "step");
  const std::int64_t file = hdf5::read_int64_attribute(file_, "file");
  const std::int64_t files = hdf5::read_int64_attribute(file_, "files");
  const auto expected_files = static_cast<std::int64_t>(manifest_->files.size());
  SHOAL_CHECK(step == manifest_->step && file == static_cast<std::int64_t>(index) && files == expected_files,
              CheckpointError, "{} is of step {} and file {} of {}, the manifest says step {} and file {} of {}",
              path_.string(), step, file, files, manifest_->step, index, expected_files);
}

void ShardReader::read_table(const ShardFile& expected) {
  const hdf5::Placement place = hdf5::find_dataset(file_, kRegionsDataset);
  SHOAL_CHECK((place.shape == std::vector<std::int64_t>{expected.regions, 4}) && place.element_bytes == 8,
              CheckpointError, "{}: {} has not the {} rows that the manifest says", path_.string(), kRegionsDataset,
              expected.regions);
  table_.resize(static_cast<std::size_t>(expected.regions));
  if (!table_.empty()) bytes_.read_at(place.file_offset, table_.data(), table_.size() * sizeof(RegionRow));
  SHOAL_CHECK(table_crc(table_) == expected.table_crc, CheckpointError,
              "{}: the table of regions does not match its checksum in the manifest: it is damaged", path_.string());
  check_rows(table_, *manifest_, path_.string());
}

// Files of older versions of Shoal have none. Damaged ones are no obstacle: HDF5 knows the places as well.
void ShardReader::read_places() {
  hdf5::Placement found;
  try {
    found = hdf5::find_dataset(file_, kPlacesDataset);
  } catch (const hdf5::Hdf5Error&) {
    return;
  }
  std::vector<std::uint64_t> numbers(table_.size() + 1);
  const auto count = static_cast<std::int64_t>(numbers.size());
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(std::uint64_t)), file_bytes = bytes_.size();
  if (found.shape != std::vector{count} || found.element_bytes != 8 || found.file_offset < 0 ||
      found.file_offset > file_bytes - bytes)
    return;
  bytes_.read_at(found.file_offset, numbers.data(), static_cast<std::size_t>(bytes));
  const std::uint64_t checksum = numbers.back();
  numbers.pop_back();
  if (crc32c(numbers.data(), numbers.size() * sizeof(std::uint64_t)) != checksum) return;
  for (std::size_t region = 0; region < numbers.size(); ++region) {
    const std::int64_t most = file_bytes - bytes_of(table_[region]);
    if (most < 0 || numbers[region] > static_cast<std::uint64_t>(most)) return;
  }
  places_.assign(numbers.begin(), numbers.end());
}

std::int64_t ShardReader::place_of(std::size_t region) const {
  return places_.empty() ? locate(region) : places_.at(region);
}

// Regions of one tensor in one file lie one after the other in the tensor's one dataset, in the table's order.
std::int64_t ShardReader::locate(std::size_t region) const {
  const std::uint64_t tensor = table_.at(region).tensor;
  const TensorSpec& spec = manifest_->tensors[tensor].spec;
  const auto [first, last] = std::equal_range(table_.begin(), table_.end(), table_[region], by_tensor);
  std::uint64_t before = 0, total = 0;
  for (auto row = first; row != last; ++row) {
    if (row < table_.begin() + static_cast<std::ptrdiff_t>(region)) before += row->count;
    total += row->count;
  }
  const std::string path = shard_dataset_path(spec.name);
  const auto lock = hdf5::lock_library();
  const hdf5::Placement place = as_damage([&] { return hdf5::find_dataset(file_, path); });
  SHOAL_CHECK(place.dtype == spec.dtype && place.shape == std::vector{static_cast<std::int64_t>(total)} &&
                  place.file_offset >= 0,
              CheckpointError, "{}: dataset {} is not the {} elements of {} that the manifest and the table say",
              path_.string(), path, total, name_of(spec.dtype));
  const std::int64_t at = place.file_offset + static_cast<std::int64_t>(before) * size_of(spec.dtype);
  SHOAL_CHECK(places_.empty() || places_.at(region) == at, CheckpointError,
              "{}: dataset {} is not where {} says that it is", path_.string(), path, kPlacesDataset);
  return at;
}

void ShardReader::read_part(std::size_t region, std::int64_t offset, std::byte* into, std::size_t bytes) const {
  as_damage([&] { bytes_.read_at(place_of(region) + offset, into, bytes); });
}

std::int64_t ShardReader::bytes_of(const RegionRow& row) const {
  return static_cast<std::int64_t>(row.count) * size_of(manifest_->tensors[row.tensor].spec.dtype);
}

void ShardReader::check_checksum(const RegionRow& row, std::uint32_t crc) const {
  SHOAL_CHECK(crc == row.crc, CheckpointError,
              "{}: {}: the bytes do not match their checksum (CRC-32C {:08x}, {:08x} was written): it is damaged",
              path_.string(), describe(row, *manifest_), crc, row.crc);
}

void ShardReader::read(std::size_t region, const RegionSink& sink, std::vector<std::byte>& buffer) const {
  const RegionRow& row = table_.at(region);
  const std::int64_t bytes = bytes_of(row), from = place_of(region);
  const std::int64_t to = static_cast<std::int64_t>(row.begin) * size_of(manifest_->tensors[row.tensor].spec.dtype);
  buffer.resize(static_cast<std::size_t>(kChunkBytes));
  std::uint32_t crc = 0;
  for (std::int64_t done = 0; done < bytes; done += kChunkBytes) {
    const auto chunk = static_cast<std::size_t>(std::min(kChunkBytes, bytes - done));
    as_damage([&] { bytes_.read_at(from + done, buffer.data(), chunk); });
    crc = crc32c(buffer.data(), chunk, crc);
    sink(to + done, buffer.data(), chunk);
    activity::progressed();
  }
  check_checksum(row, crc);
}

std::uint32_t ShardReader::read_into(std::size_t region, std::byte* into) const {
  const RegionRow& row = table_.at(region);
  const std::int64_t bytes = bytes_of(row), from = place_of(region);
  std::uint32_t crc = 0;
  for (std::int64_t done = 0; done < bytes; done += kReadBytes) {
    const auto chunk = static_cast<std::size_t>(std::min(kReadBytes, bytes - done));
    as_damage([&] { bytes_.read_at(from + done, into + done, chunk); });
    crc = crc32c(into + done, chunk, crc);  // while it is in the cache
    activity::progressed();
  }
  check_checksum(row, crc);
  return crc;
}

}  // namespace shoal::checkpoint
