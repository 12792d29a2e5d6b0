// Which file system a path lies on, as the system's table of mounts has it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shoal::preflight {

struct Mount {
  std::string source;  // "/dev/sda1", "server:/export", "10.0.0.1@o2ib:/scratch"
  std::string directory;
  std::string type;  // "ext4", "fuse.glusterfs"
};

// The last of the mounts in `table` (the form of /proc/self/mounts) whose directory is nearest above `path`, which must
// be absolute. None where the table cannot be read.
std::optional<Mount> find_mount(const std::filesystem::path& path,
                                const std::filesystem::path& table = "/proc/self/mounts");

}  // namespace shoal::preflight
