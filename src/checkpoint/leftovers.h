// What saves that did not come to their end have left in a directory of checkpoints.
#pragma once

#include <filesystem>
#include <functional>

namespace shoal::checkpoint {

// Renames, then removes the unfinished saves of attempts up to `attempt`, so that whoever is still writing one can
// neither commit it nor add to it. What cannot be removed at once is left for the next sweep, with a warning; what
// cannot be renamed is an IoError. `set_aside` is called after each renaming.
void sweep_leftovers(const std::filesystem::path& directory, int attempt, const std::function<void()>& set_aside = {});

// A save that was killed, or fenced off, between its two renames left the old checkpoint of the step without its name.
void restore_displaced(const std::filesystem::path& directory);

}  // namespace shoal::checkpoint
