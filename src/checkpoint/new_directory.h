// A checkpoint that a tool writes, into a directory of checkpoints of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "checkpoint/manifest.h"
#include "checkpoint/reshard_targets.h"

namespace shoal::checkpoint {

// So that no running job can be in the way and `latest` is not in doubt. OptionError where it is there and not empty.
void check_new_directory(const std::filesystem::path& output);

struct NewCheckpoint {
  std::filesystem::path path;
  std::int64_t bytes = 0;
  double verify_seconds = 0;
};

// `manifest`: all but what the writing makes, tensors cut for its ranks; `fill` writes every element of them. What is
// written is read back by `workers` threads, which `reading_back` hears of, and committed; nothing is left after an
// error. OptionError where another tool is writing there, IoError where it does not read back as it was written.
NewCheckpoint write_new_checkpoint(const std::filesystem::path& output, Manifest manifest, int workers,
                                   const std::function<void(ReshardTargets&)>& fill,
                                   const std::function<void(std::int64_t bytes)>& reading_back = {});

}  // namespace shoal::checkpoint
