#include "preflight/mounts.h"

#include <mntent.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace shoal::preflight {
namespace {

namespace fs = std::filesystem;

bool is_above(const fs::path& directory, const fs::path& path) {
  const auto [end, ignored] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return end == directory.end() || (std::next(end) == directory.end() && end->empty());
}

}  // namespace

std::optional<Mount> find_mount(const fs::path& path, const fs::path& table) {
  const std::unique_ptr<FILE, int (*)(FILE*)> mounts(setmntent(table.c_str(), "r"), endmntent);
  if (!mounts) return std::nullopt;
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  std::optional<Mount> nearest;
  while (const mntent* entry = getmntent(mounts.get())) {
    const std::string directory = entry->mnt_dir;
    // What was mounted later lies over what was there.
    if (is_above(directory, real) && (!nearest || directory.size() >= nearest->directory.size()))
      nearest = Mount{entry->mnt_fsname, directory, entry->mnt_type};
  }
  return nearest;
}

}  // namespace shoal::preflight
