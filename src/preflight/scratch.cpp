#include "preflight/scratch.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"

namespace shoal::preflight {

namespace fs = std::filesystem;

std::vector<fs::path> missing_directories(const fs::path& directory) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = fs::absolute(directory).lexically_normal(); !at.empty() && !fs::exists(at, error);
       at = directory_of(at)) {
    if (!missing.empty() && missing.back() == at) break;
    missing.push_back(at);
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

Scratch::Scratch(Guard& guard, const fs::path& directory, const std::string& name)
    : guard_(&guard), directory_(fs::absolute(directory).lexically_normal()), path_(directory_ / name) {
  // Any rank may be the last that lives.
  guard_->remove_at_end(path_);
}

void Scratch::adopt(std::vector<fs::path> parents) {
  parents_ = std::move(parents);
  guard_->forget(path_);
  guard_->remove_at_end(path_, parents_);
}

void Scratch::make() {
  make_directories(directory_);
  if (::mkdir(path_.c_str(), 0777) != 0)
    throw IoError("cannot make a folder in {}: {}; choose a place that you may write", directory_.string(),
                  std::generic_category().message(errno));
}

Scratch::~Scratch() {
  remove_patiently(path_, parents_);
  guard_->forget(path_);
}

}  // namespace shoal::preflight
