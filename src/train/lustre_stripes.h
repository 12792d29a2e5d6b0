// Lustre cuts a file into stripes, each on another of its targets (OSTs). Checkpoints are many files already, so that
// one stripe is best but for very large ones.
#pragma once

#include <filesystem>
#include <string>

#include "launch/child_process.h"

namespace shoal::train {

// Stripes of a file of so many bytes: 1, or 4 above 100 GB.
int stripes_of(double file_bytes);

// Where `directory` is on Lustre ('lfs' is on PATH and knows it), its new files get stripes_of(file_bytes) stripes.
// Returns one line that says so, or why it could not be done; empty where it is not on Lustre.
std::string set_stripes(const std::filesystem::path& directory, double file_bytes,
                        const launch::CommandRunner& run = launch::run_command);

}  // namespace shoal::train
