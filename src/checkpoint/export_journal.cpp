#include "checkpoint/export_journal.h"

#include <cstddef>
#include <cstring>

#include "core/check.h"
#include "core/crc32c.h"

namespace shoal::checkpoint {
namespace {

// 24 bytes, as a line has.
std::string heading(std::uint64_t plan) { return fmt::format("shoal:{:016x}\n\n", plan); }

std::uint32_t crc_of(const FinishedPiece& piece) { return crc32c(&piece, offsetof(FinishedPiece, own_crc)); }

}  // namespace

std::optional<std::vector<FinishedPiece>> ExportJournal::read() const {
  std::error_code absent;
  if (!std::filesystem::exists(path_, absent)) return std::nullopt;
  const std::string text = read_text_file(path_), expected = heading(plan_);
  if (!text.starts_with(expected)) return std::nullopt;
  std::vector<FinishedPiece> finished;
  for (std::size_t at = expected.size(); at + sizeof(FinishedPiece) <= text.size(); at += sizeof(FinishedPiece)) {
    FinishedPiece piece;
    std::memcpy(&piece, text.data() + at, sizeof piece);
    if (piece.own_crc != crc_of(piece)) break;
    finished.push_back(piece);
  }
  return finished;
}

void ExportJournal::begin(const std::vector<FinishedPiece>& finished) {
  file_.emplace(path_);
  const std::string text = heading(plan_);
  file_->write_at(0, text.data(), text.size());
  end_ = static_cast<std::int64_t>(text.size());
  add(finished);
  sync_directory(directory_of(path_));
}

void ExportJournal::add(std::vector<FinishedPiece> finished) {
  for (FinishedPiece& piece : finished) piece.own_crc = crc_of(piece);
  const std::size_t bytes = finished.size() * sizeof(FinishedPiece);
  if (bytes > 0) file_->write_at(end_, finished.data(), bytes);
  file_->sync();
  end_ += static_cast<std::int64_t>(bytes);
}

void ExportJournal::close() { file_.reset(); }

}  // namespace shoal::checkpoint
