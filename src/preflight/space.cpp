#include "preflight/space.h"

#include <fmt/format.h>
#include <sys/vfs.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "core/check.h"
#include "preflight/mounts.h"

namespace shoal::preflight {
namespace {

constexpr double kGiB = 1 << 30;

struct Magic {
  std::uint64_t number;
  const char* name;
};
// From linux/magic.h and, for those that Linux does not have, from their sources.
constexpr std::array kMagics{Magic{0x0BD00BD0, "lustre"}, Magic{0x47504653, "gpfs"},   Magic{0x6969, "nfs"},
                             Magic{0x65735546, "fuse"},   Magic{0x01021994, "tmpfs"},  Magic{0xEF53, "ext4"},
                             Magic{0x58465342, "xfs"},    Magic{0x9123683E, "btrfs"},  Magic{0x19830326, "beegfs"},
                             Magic{0x00C36400, "ceph"},   Magic{0x2FC12FC1, "zfs"},    Magic{0x794C7630, "overlay"},
                             Magic{0xAAD7AAEA, "panfs"},  Magic{0x7461636F, "ocfs2"},  Magic{0x01161970, "gfs2"},
                             Magic{0xFF534D42, "cifs"},   Magic{0xFE534D42, "smb"},    Magic{0x20030528, "orangefs"},
                             Magic{0x858458F6, "ramfs"},  Magic{0x5346414F, "afs"},    Magic{0xBEEFDEAD, "wekafs"},
                             Magic{0xF2F52010, "f2fs"},   Magic{0xBACBACBC, "vmhgfs"}, Magic{0x01021997, "9p"}};

std::string gib(double bytes) { return fmt::format("{:.3g} GiB", bytes / kGiB); }

// Where it is not known, the text tells how to have it judged.
std::string need_text(double needed) {
  return needed > 0 ? "" : "; --checkpoint-gib N compares it with what checkpoints need";
}

}  // namespace

const char* filesystem_name(std::uint64_t magic) {
  for (const Magic& known : kMagics)
    if (known.number == magic) return known.name;
  return "";
}

Space read_space(const std::filesystem::path& directory) {
  struct statfs status {};
  SHOAL_CHECK(::statfs(directory.c_str(), &status) == 0, IoError, "cannot examine the file system of {}: {}",
              directory.string(), std::generic_category().message(errno));
  const auto magic = static_cast<std::uint64_t>(static_cast<std::uint32_t>(status.f_type));
  Space space{.type = filesystem_name(magic),
              .free_bytes = static_cast<double>(status.f_bavail) * static_cast<double>(status.f_bsize)};
  // Many file systems are behind FUSE; the table of mounts tells them apart.
  if (space.type == "fuse" || space.type.empty()) {
    constexpr std::string_view kFuse = "fuse.";
    const auto mount = find_mount(std::filesystem::absolute(directory));
    if (mount) space.type = mount->type.starts_with(kFuse) ? mount->type.substr(kFuse.size()) : mount->type;
    if (!mount) space.type = fmt::format("type {:#x}", magic);
  }
  if (status.f_files > 0) space.free_inodes = static_cast<double>(status.f_ffree);
  return space;
}

Record judge_space(const Space& space, double needed) {
  Record record{.value = space.free_bytes / kGiB, .unit = "GiB", .code = ExitCode::io};
  record.found = fmt::format("{}, {} free{}", space.type, gib(space.free_bytes),
                             space.free_inodes ? fmt::format(", {:.3g} inodes", *space.free_inodes) : "");
  constexpr double kFewInodes = 10'000;  // a checkpoint has a file a rank
  if (needed > space.free_bytes) {
    record.verdict = Verdict::fail;
    record.advice =
        fmt::format("the checkpoints need {}: free some space, choose another place, or --keep fewer", gib(needed));
  } else if (space.free_inodes && *space.free_inodes < kFewInodes) {
    record.verdict = Verdict::warn;
    record.advice = "a checkpoint has a file for each rank: remove files";
  } else {
    record.found += need_text(needed);
  }
  return record;
}

Record judge_quota(const std::optional<Quota>& quota, const std::string& none, double needed) {
  Record record{.code = ExitCode::io};
  if (!quota) {
    record.verdict = Verdict::skipped;
    record.found = none;
    return record;
  }
  record.found =
      fmt::format("{} used{}, {:.0f} files{} ({})", gib(quota->used_bytes),
                  quota->limit_bytes ? " of " + gib(*quota->limit_bytes) : " without limit", quota->used_files,
                  quota->limit_files ? fmt::format(" of {:.0f}", *quota->limit_files) : "", quota->source);
  if (quota->limit_bytes) {
    const double left = *quota->limit_bytes - quota->used_bytes;
    record.value = left / kGiB;
    record.unit = "GiB";
    if (left < needed || left <= 0) {
      record.verdict = Verdict::fail;
      record.advice = needed > 0 ? fmt::format("the checkpoints need {}: free some space, or ask for more", gib(needed))
                                 : std::string("the quota is used up: free some space, or ask for more");
    }
  }
  if (quota->limit_files && *quota->limit_files - quota->used_files < 1) {
    record.verdict = Verdict::fail;
    record.advice = "no more files are allowed: remove some, or ask for more";
  }
  if (record.verdict == Verdict::ok) record.found += need_text(needed);
  return record;
}

}  // namespace shoal::preflight
