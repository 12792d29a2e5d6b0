#include "checkpoint/export_parts.h"

#include "core/check.h"
#include "core/logging.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;

fs::path part_path(const fs::path& output) { return output.string() + ".part"; }

ExportParts::ExportParts(const ExportLayout& layout, const fs::path& journal, std::uint64_t plan)
    : layout_(&layout), journal_(journal, plan) {}

bool ExportParts::complete() const {
  for (const ExportFile& file : layout_->files) {
    std::error_code absent;
    if (fs::file_size(part_path(file.path), absent) != static_cast<std::uintmax_t>(file.bytes) || absent) return false;
  }
  return true;
}

void ExportParts::open() {
  const auto before = journal_.read();
  const bool goes_on = before && complete();
  if (goes_on) finished_ = *before;
  for (const ExportFile& file : layout_->files) {
    const fs::path part = part_path(file.path);
    outputs_.push_back(goes_on ? OutputFile::open_existing(part) : OutputFile(part));
    if (!goes_on) outputs_.back().resize(file.bytes);
  }
  journal_.begin(finished_);
}

void ExportParts::write(const std::vector<ExportRecord>& records) {
  for (const auto& [place, bytes] : records) outputs_[place.file].write_at(place.offset, bytes.data(), bytes.size());
  for (OutputFile& output : outputs_) {
    output.sync();
    output.close();
  }
  outputs_.clear();
}

void ExportParts::read_back(const std::vector<ExportRecord>& records) const {
  for (const auto& [place, bytes] : records) {
    const fs::path part = part_path(layout_->files[place.file].path);
    std::string found(bytes.size(), '\0');
    InputFile(part).read_at(place.offset, found.data(), found.size());
    SHOAL_CHECK(found == bytes, IoError, "{}: byte {} and what follows does not read back as it was written",
                part.string(), place.offset);
  }
}

// Without the journal first: with it, what was renamed already would be missed.
void ExportParts::finish() {
  journal_.close();
  if (const std::error_code error = try_remove(journal_.path()))
    throw IoError("cannot remove {}: {}", journal_.path().string(), error.message());
  for (const ExportFile& file : layout_->files) rename_path(part_path(file.path), file.path);
  sync_directory(directory_of(layout_->files.front().path));
}

void ExportParts::remove() noexcept {
  journal_.close();
  outputs_.clear();
  std::vector<fs::path> paths{journal_.path()};
  for (const ExportFile& file : layout_->files) paths.push_back(part_path(file.path));
  for (const fs::path& path : paths)
    if (const std::error_code error = try_remove(path))
      log::warning("{} could not be removed: {}", path.string(), error.message());
}

}  // namespace shoal::checkpoint
