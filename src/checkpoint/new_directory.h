// What the verbs ask for that write a checkpoint of their own.
#pragma once

#include <filesystem>

#include "checkpoint/verify.h"

namespace shoal::checkpoint {

// A directory of its own, so that no running job can be in the way and `latest` is not in doubt. OptionError where it
// is there and not empty.
void check_new_directory(const std::filesystem::path& output);

// IoError where what was read back is not what was written.
void check_read_back(const VerifyReport& result);

}  // namespace shoal::checkpoint
