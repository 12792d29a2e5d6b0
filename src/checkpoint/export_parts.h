// The files of an export while it is not complete: OUTPUT.part, made as large as they will be, and the journal.
#pragma once

#include <vector>

#include "checkpoint/export_journal.h"
#include "checkpoint/export_layout.h"

namespace shoal::checkpoint {

std::filesystem::path part_path(const std::filesystem::path& output);

class ExportParts {
 public:
  // `journal`: where that is to stand.
  ExportParts(const ExportLayout& layout, const std::filesystem::path& journal, std::uint64_t plan);

  // Goes on with the files of an export of the same plan that was killed, where they are all there, or begins anew.
  void open();
  std::vector<OutputFile>& outputs() { return outputs_; }
  ExportJournal& journal() { return journal_; }
  const std::vector<FinishedPiece>& finished() const { return finished_; }  // before this process

  void write(const std::vector<ExportRecord>& records);
  // IoError where they do not read back.
  void read_back(const std::vector<ExportRecord>& records) const;
  // The files get their names; replaces what has them.
  void finish();
  void remove() noexcept;  // after an error

 private:
  bool complete() const;

  const ExportLayout* layout_;
  ExportJournal journal_;
  std::vector<FinishedPiece> finished_;
  std::vector<OutputFile> outputs_;
};

}  // namespace shoal::checkpoint
