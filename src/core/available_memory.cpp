#include "core/available_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace shoal {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::optional<std::int64_t> mem_available(const fs::path& root) {
  std::ifstream lines(root / "proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib * 1024;
  }
  return std::nullopt;
}

// "max", which is no number, is no limit.
std::int64_t number_in(const fs::path& file) {
  std::ifstream text(file);
  std::int64_t number = 0;
  return text >> number ? number : kNoLimit;
}

// What the group and those above it leave, each with its own limit.
std::int64_t left_in_group(const fs::path& root, const fs::path& group, const char* limit, const char* usage) {
  std::int64_t left = kNoLimit;
  for (fs::path at = group.relative_path();; at = at.parent_path()) {
    const std::int64_t most = number_in(root / at / limit), used = number_in(root / at / usage);
    if (most != kNoLimit && used != kNoLimit) left = std::min(left, std::max<std::int64_t>(most - used, 0));
    if (at.empty()) return left;
  }
}

// Lines of /proc/self/cgroup are "hierarchy:controllers:path"; version 2 is hierarchy 0.
std::int64_t left_in_groups(const fs::path& root) {
  std::int64_t left = kNoLimit;
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty())
      left = std::min(left, left_in_group(root / "sys/fs/cgroup", path, "memory.max", "memory.current"));
    else if (("," + controllers + ",").find(",memory,") != std::string::npos)
      left = std::min(
          left, left_in_group(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes"));
  }
  return left;
}

}  // namespace

std::optional<std::int64_t> available_memory(const fs::path& root) {
  const std::optional<std::int64_t> free = mem_available(root);
  if (!free) return std::nullopt;
  return std::min(*free, left_in_groups(root));
}

}  // namespace shoal
