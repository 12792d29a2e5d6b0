#include "checkpoint/export_parts.h"

#include "core/check.h"
#include "core/logging.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;

fs::path part_path(const fs::path& output) { return output.string() + ".part"; }

// Rather now than after hours: the parts are made with holes, which a full disk finds out late.
void check_room(const fs::path& directory, const ExportLayout& layout) {
  std::uintmax_t needed = 0;
  for (const ExportFile& file : layout.files) needed += static_cast<std::uintmax_t>(file.bytes);
  std::error_code unknown;
  const fs::space_info space = fs::space(directory, unknown);
  SHOAL_CHECK(unknown || space.available >= needed, IoError,
              "{} has {} bytes free and the export needs {}: free some, or choose another --output", directory.string(),
              space.available, needed);
}

ExportParts::ExportParts(const ExportLayout& layout, const fs::path& journal, std::uint64_t plan, ExportTeam team,
                         bool direct)
    : layout_(&layout),
      plan_(plan),
      team_(std::move(team)),
      direct_(direct),
      journal_(journal, plan),
      own_journal_(team_.is_alone() ? journal : team_.journal_of(team_.member().index), plan) {}

bool ExportParts::complete() const {
  for (const ExportFile& file : layout_->files) {
    std::error_code absent;
    if (fs::file_size(part_path(file.path), absent) != static_cast<std::uintmax_t>(file.bytes) || absent) return false;
  }
  return true;
}

// Of the journal of all and, after a start of several processes, of theirs, however many they were.
std::vector<FinishedPiece> ExportParts::finished_before() const {
  std::vector<FinishedPiece> finished = journal_.read().value_or(std::vector<FinishedPiece>{});
  const fs::path directory = directory_of(journal_.path());
  const std::string prefix = journal_.path().filename().string() + ".";
  std::error_code error;
  for (fs::directory_iterator entries(directory, error), end; !error && entries != end; entries.increment(error)) {
    if (!entries->path().filename().string().starts_with(prefix)) continue;
    const auto more = ExportJournal(entries->path(), plan_).read();
    if (more) finished.insert(finished.end(), more->begin(), more->end());
  }
  return finished;
}

// The journals go first: they must not call finished what is not there any more. Room is looked at when an old part has
// given its own back.
void ExportParts::begin_anew() {
  journal_.begin({});
  team_.tidy_up();
  std::vector<OutputFile> parts;
  for (const ExportFile& file : layout_->files) parts.emplace_back(part_path(file.path));
  check_room(directory_of(journal_.path()), *layout_);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].resize(layout_->files[i].bytes);
}

void ExportParts::open() {
  if (team_.leads()) {
    if (complete()) finished_ = finished_before();
    if (finished_.empty()) begin_anew();
  } else {
    team_.await_leader();
    finished_ = journal_.read().value_or(std::vector<FinishedPiece>{});
  }
  for (const ExportFile& file : layout_->files) {
    const fs::path part = part_path(file.path);
    outputs_.emplace_back(OutputFile::open_existing(part), part, direct_);
  }
  if (team_.leads()) {
    journal_.begin(finished_);
    journal_.close();
    team_.tidy_up();
  }
  own_journal_.begin(team_.is_alone() ? finished_ : std::vector<FinishedPiece>{});
  if (team_.leads() && !team_.is_alone()) team_.announce();
}

std::vector<FinishedPiece> ExportParts::finished_by_others() const {
  std::vector<FinishedPiece> finished;
  for (int index = 1; index < team_.member().count; ++index) {
    const auto more = ExportJournal(team_.journal_of(index), plan_).read();
    if (more) finished.insert(finished.end(), more->begin(), more->end());
  }
  return finished;
}

void ExportParts::write(const std::vector<ExportRecord>& records) {
  for (const auto& [place, bytes] : records) outputs_[place.file].write_at(place.offset, bytes.data(), bytes.size());
  for (DirectOutput& output : outputs_) {
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

void ExportParts::close() {
  own_journal_.close();
  outputs_.clear();
}

// Without the journals first: with them, what was renamed already would be missed.
void ExportParts::finish() {
  close();
  team_.tidy_up();
  if (const std::error_code error = try_remove(journal_.path()))
    throw IoError("cannot remove {}: {}", journal_.path().string(), error.message());
  for (const ExportFile& file : layout_->files) rename_path(part_path(file.path), file.path);
  sync_directory(directory_of(layout_->files.front().path));
}

void ExportParts::remove() noexcept {
  close();
  std::vector<fs::path> paths{journal_.path()};
  for (const ExportFile& file : layout_->files) paths.push_back(part_path(file.path));
  for (const fs::path& path : paths)
    if (const std::error_code error = try_remove(path))
      log::warning("{} could not be removed: {}", path.string(), error.message());
}

}  // namespace shoal::checkpoint
