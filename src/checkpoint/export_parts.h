// The files of an export while it is not complete: OUTPUT.part, made as large as they will be, and the journal.
#pragma once

#include <vector>

#include "checkpoint/export_journal.h"
#include "checkpoint/export_layout.h"
#include "checkpoint/export_team.h"
#include "core/direct_file.h"

namespace shoal::checkpoint {

std::filesystem::path part_path(const std::filesystem::path& output);

// IoError where the file system of `directory` has not room for all files.
void check_room(const std::filesystem::path& directory, const ExportLayout& layout);

class ExportParts {
 public:
  // `direct`: what is written goes past the page cache where it can.
  ExportParts(const ExportLayout& layout, const std::filesystem::path& journal, std::uint64_t plan, ExportTeam team,
              bool direct);

  // Process 0 goes on with the files of an export of the same plan that was killed, where they are all there and some
  // of it is finished, or begins anew; the others wait for it. What is not finished is right, or zero.
  void open();
  std::vector<DirectOutput>& outputs() { return outputs_; }
  ExportJournal& journal() { return own_journal_; }                         // of what this process finishes
  const std::vector<FinishedPiece>& finished() const { return finished_; }  // before this start, by whichever process
  // Process 0: what the others have finished, once they have.
  std::vector<FinishedPiece> finished_by_others() const;
  const ExportTeam& team() const { return team_; }

  void write(const std::vector<ExportRecord>& records);
  // IoError where they do not read back.
  void read_back(const std::vector<ExportRecord>& records) const;
  // The files get their names; replaces what has them.
  void finish();
  void close();
  void remove() noexcept;  // after an error

 private:
  bool complete() const;
  void begin_anew();
  std::vector<FinishedPiece> finished_before() const;

  const ExportLayout* layout_;
  std::uint64_t plan_;
  ExportTeam team_;
  bool direct_;
  ExportJournal journal_, own_journal_;  // one and the same file where the process is alone
  std::vector<FinishedPiece> finished_;
  std::vector<DirectOutput> outputs_;
};

}  // namespace shoal::checkpoint
