// Who may change a directory of checkpoints. After a split of the network the ranks of a requeued job can run on beside
// the new ones, and two jobs can be given one directory: the newest attempt writes, every older one keeps its hands
// off.
//
//   DIR/attempts/000003         attempt 3 has its number; nothing else has changed
//   DIR/attempts/000003.writer  it has entered: every attempt with a smaller number is superseded
//
// There is no lock, since one whose owner is cut off would be held for ever. Instead, an attempt that enters first
// makes itself known, then renames the unfinished saves of all older ones, and only then looks at what is complete. An
// older one asks before it begins a save, before the rename that commits and around each removal, and a commit is one
// rename of a directory that the newer attempt has taken away: whichever rename comes first wins, and both know who
// won. The file system must show a name that one host has made to the others; docs/checkpoint_format.md tells more.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace shoal::checkpoint {

// Points of enter() between which the disk changes, for tests.
enum class FencePoint { number_taken, entered, leftover_set_aside, swept };
using FenceObserver = std::function<void(FencePoint)>;

// A value; rank 0 of an attempt has one. Not thread-safe.
class Fence {
 public:
  // Takes the smallest number above `above` and above all that were ever taken in `directory`, which is made where it
  // is missing. `who`: one line about the attempt, which those that it supersedes will quote. IoError.
  static Fence take(const std::filesystem::path& directory, int above, const std::string& who,
                    const FenceObserver& observer = {});

  // For tools, which are no attempts and supersede nobody: stands for the attempt that has entered last, if any.
  // check() throws SupersededError once a newer one has, since what that one finds is to stay as it finds it. enter()
  // must not be called. IoError.
  static Fence watch(const std::filesystem::path& directory);

  int number() const { return number_; }

  // From here on older attempts neither commit nor delete; what they left unfinished is gone, and what they had
  // displaced has its name back. SupersededError where a newer attempt has entered.
  void enter(const FenceObserver& observer = {}) const;

  // SupersededError where a newer attempt has entered, or where the directory is no longer the one in which the number
  // was taken; IoError where that cannot be told.
  void check() const;

 private:
  void check_unchanged() const;
  Fence(std::filesystem::path directory, int number, std::string text)
      : directory_(std::move(directory)), number_(number), text_(std::move(text)) {}

  std::filesystem::path directory_;
  int number_;
  std::string text_;  // of the file; empty: watches only
};

}  // namespace shoal::checkpoint
