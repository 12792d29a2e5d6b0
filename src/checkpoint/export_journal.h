// What of an export is finished and on the disk, so that one that was killed goes on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/file_io.h"

namespace shoal::checkpoint {

// As it stands in the file.
struct FinishedPiece {
  std::uint64_t piece = 0;
  std::uint32_t source_crc = 0;  // CRC-32C of what was read
  std::uint32_t output_crc = 0;  // CRC-32C of what was written
  std::uint32_t zip_crc = 0;     // CRC-32 of the same, where it is wanted
  std::uint32_t own_crc = 0;     // CRC-32C of the fields above: a line cut off by a crash is no line
};
static_assert(sizeof(FinishedPiece) == 24);

class ExportJournal {
 public:
  // `plan` stands for everything that decides which bytes go where.
  ExportJournal(std::filesystem::path path, std::uint64_t plan) : path_(std::move(path)), plan_(plan) {}

  const std::filesystem::path& path() const { return path_; }
  // What stands in the file, up to the first line that is not whole. Nothing where there is no journal of this plan.
  std::optional<std::vector<FinishedPiece>> read() const;
  // Makes the file anew, with these.
  void begin(const std::vector<FinishedPiece>& finished);
  // The pieces' bytes are on the disk; afterwards these lines are, too. By one thread at a time.
  void add(std::vector<FinishedPiece> finished);
  void close();

 private:
  std::filesystem::path path_;
  std::uint64_t plan_;
  std::optional<OutputFile> file_;
  std::int64_t end_ = 0;
};

}  // namespace shoal::checkpoint
