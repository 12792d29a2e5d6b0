// Several processes that write one export, without MPI: they meet in small files beside it. Process 0 makes the output
// and gives it its name; the others only write into it.
#pragma once

#include <filesystem>
#include <string>

namespace shoal::checkpoint {

struct ExportMember {
  int index = 0, count = 1;
  std::string token;  // the same for all of one start and no other: job, step and restart
};

class ExportTeam {
 public:
  // `stem`: what the names of the files begin with.
  ExportTeam(std::filesystem::path stem, ExportMember member) : stem_(std::move(stem)), member_(std::move(member)) {}

  const ExportMember& member() const { return member_; }
  bool leads() const { return member_.index == 0; }
  bool is_alone() const { return member_.count == 1; }
  std::filesystem::path journal_of(int index) const;  // of what a process finishes in this start

  // Process 0: the output is there, and everybody's share follows from it and its journal. Or, with a text, that it has
  // failed.
  void announce(const std::string& failure = "") const;
  // The others: until that is so. IoError where process 0 has failed, and after ten minutes.
  void await_leader() const;
  // The others, at their end: with an empty text, or what went wrong.
  void report(const std::string& failure) const;
  // Process 0: until all have. IoError with what one reported, or where one does nothing for ten minutes.
  void await_others() const;
  // Process 0, which holds OUTPUT.lock: removes these files, of this and of earlier starts, and STEM.ID, the parts of
  // collective exports (collective_part.h) that were killed.
  void tidy_up() const;

 private:
  std::filesystem::path ready_path() const;
  std::filesystem::path report_path(int index) const;

  std::filesystem::path stem_;
  ExportMember member_;
};

}  // namespace shoal::checkpoint
