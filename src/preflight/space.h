// Room for checkpoints: of the file system, and of the user's quota.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launch/child_process.h"
#include "preflight/record.h"

namespace shoal::preflight {

struct Space {
  std::string type;                   // "lustre", "nfs", "ext4", or its number in hexadecimal
  double free_bytes = 0;              // for this user
  std::optional<double> free_inodes;  // none: the file system counts none
};

const char* filesystem_name(std::uint64_t magic);          // of statfs(2); "" for those that are not known
Space read_space(const std::filesystem::path& directory);  // IoError

// `needed`: bytes of all checkpoints that must fit, 0: not known.
Record judge_space(const Space& space, double needed);

struct Quota {
  std::string source;  // "lfs quota -u"
  double used_bytes = 0;
  std::optional<double> limit_bytes;  // the hard one, else the soft one; none: no limit
  double used_files = 0;
  std::optional<double> limit_files;
};

// From what `lfs quota -q` and `quota -w -p` print: the line of the file system `name` (any where it is empty) with
// KiB used, soft and hard limit, grace, files used, soft and hard limit. None where there is no such line.
std::optional<Quota> parse_quota(const std::string& text, const std::string& name);

// Asks the kernel, or the command of the file system; `none` then says why nothing is known.
std::optional<Quota> read_quota(const std::filesystem::path& directory, const std::string& type, std::string& none,
                                const launch::CommandRunner& run = launch::run_command);

Record judge_quota(const std::optional<Quota>& quota, const std::string& none, double needed);

}  // namespace shoal::preflight
