// Files of one directory that are read in turns: as many stay open as a process may well have.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/file_io.h"

namespace shoal::checkpoint {

class OpenFiles {
 public:
  explicit OpenFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}
  std::filesystem::path path(const std::string& name) const { return directory_ / name; }
  std::shared_ptr<InputFile> open(const std::string& name) {
    const auto found = open_.find(name);
    if (found != open_.end()) return found->second;
    if (open_.size() >= kMost) open_.clear();
    return open_.emplace(name, std::make_shared<InputFile>(path(name))).first->second;
  }

 private:
  static constexpr std::size_t kMost = 64;
  std::filesystem::path directory_;
  std::map<std::string, std::shared_ptr<InputFile>> open_;
};

}  // namespace shoal::checkpoint
