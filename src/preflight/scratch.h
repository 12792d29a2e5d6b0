// A folder of this run alone within the directory that is tried out, and its end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "preflight/guard.h"

namespace shoal::preflight {

// `directory` and those above it that do not exist, the outermost first.
std::vector<std::filesystem::path> missing_directories(const std::filesystem::path& directory);

class Scratch {
 public:
  // The path alone: nothing is made. `name`: the same on all ranks.
  Scratch(Guard& guard, const std::filesystem::path& directory, const std::string& name);
  // Removes the folder with all that is in it, and the directories that were adopted, where they are empty.
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Of the directories on the way those that are missing, the outermost first: this run is about to make them, or has.
  void adopt(std::vector<std::filesystem::path> parents);
  void make();  // and what is missing on the way; IoError
  const std::filesystem::path& path() const { return path_; }

 private:
  Guard* guard_;
  std::filesystem::path directory_, path_;
  std::vector<std::filesystem::path> parents_;
};

}  // namespace shoal::preflight
