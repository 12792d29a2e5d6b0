// Whether a run's checkpoints will fit where they go: asked before the first step, when nothing is lost yet.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/child_process.h"

namespace shoal::train {

inline constexpr double kFilesBesideRanks = 4;  // of a checkpoint: its manifest, its marker and two directories

// What a run will need.
struct RoomNeeded {
  std::filesystem::path directory;  // --checkpoint-dir
  double bytes = 0;                 // of one checkpoint, all ranks together
  double files = 0;                 // of one checkpoint
  int keep = 2;                     // so many, and one more while it is written
};

// What it has of that already: the newest sound checkpoints, `keep` at most, each of which makes room for a new one.
struct RoomTaken {
  double bytes = 0, files = 0;
};
RoomTaken room_taken(const std::filesystem::path& directory, int keep);

// What is left in one respect.
struct RoomLeft {
  std::string where;                   // "free there (ext4)", "left of your quota (lfs quota -u)"
  std::optional<double> bytes, files;  // nothing: no limit
};

// IoError where not even one checkpoint fits; the text of a warning where fewer than keep + 1 do; empty where all do.
std::string judge_room(const RoomNeeded& needed, const RoomTaken& taken, const RoomLeft& left);

// The file system's free space and inodes, and the user's quota where the system tells of one. `existing`: the
// directory, or the nearest above it that exists. Throws IoError; returns the warnings. `run` asks for the quota.
std::vector<std::string> check_room(const RoomNeeded& needed, const std::filesystem::path& existing,
                                    const launch::CommandRunner& run = launch::run_command);

}  // namespace shoal::train
