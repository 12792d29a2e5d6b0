#include "train/checkpoint_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/catalog.h"
#include "core/check.h"
#include "preflight/space.h"

namespace shoal::train {
namespace {

std::string size_text(double bytes) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  return bytes < kGiB ? fmt::format("{:.1f} MiB", bytes / kMiB) : fmt::format("{:.1f} GiB", bytes / kGiB);
}

std::string files_text(double files) { return fmt::format("{:.0f} files", files); }

using Text = std::string (*)(double);

std::string judge(const RoomNeeded& needed, const std::string& where, double one, double taken, double left,
                  Text text) {
  const std::string option = "--checkpoint-dir " + needed.directory.string();
  SHOAL_CHECK(left >= one, IoError,
              "{}: a checkpoint takes {}, and {} are {}: make room there, or give another --checkpoint-dir", option,
              text(one), text(left), where);
  const double all = (needed.keep + 1) * one;
  const double missing = std::max(one, all - taken);
  if (left >= missing) return "";
  return fmt::format(
      "{}: {} checkpoints (--keep {}, and one being written) take {}, of which {} are there already, and {} are {}: a "
      "later save will fail unless you make room, or --keep fewer",
      option, needed.keep + 1, needed.keep, text(all), text(taken), text(left), where);
}

RoomLeft left_of_quota(const preflight::Quota& quota) {
  RoomLeft left{fmt::format("left of your quota ({})", quota.source), {}, {}};
  if (quota.limit_bytes) left.bytes = std::max(0.0, *quota.limit_bytes - quota.used_bytes);
  if (quota.limit_files) left.files = std::max(0.0, *quota.limit_files - quota.used_files);
  return left;
}

}  // namespace

RoomTaken room_taken(const std::filesystem::path& directory, int keep) {
  RoomTaken taken;
  int sound = 0;
  for (const checkpoint::CatalogEntry& entry : checkpoint::list_checkpoints(directory)) {
    if (sound == keep) break;
    try {
      const checkpoint::Manifest manifest = checkpoint::open_checkpoint(entry.path);
      ++sound;
      taken.bytes += static_cast<double>(manifest.file_bytes());
      taken.files += static_cast<double>(manifest.files.size()) + kFilesBesideRanks;
    } catch (const CheckpointError&) {
      continue;  // stays whatever is saved
    }
  }
  return taken;
}

std::string judge_room(const RoomNeeded& needed, const RoomTaken& taken, const RoomLeft& left) {
  std::string warning;
  if (left.bytes) warning = judge(needed, left.where, needed.bytes, taken.bytes, *left.bytes, size_text);
  if (left.files && warning.empty())
    warning = judge(needed, left.where, needed.files, taken.files, *left.files, files_text);
  return warning;
}

std::vector<std::string> check_room(const RoomNeeded& needed, const std::filesystem::path& existing,
                                    const launch::CommandRunner& run) {
  const RoomTaken taken = room_taken(needed.directory, needed.keep);
  const preflight::Space space = preflight::read_space(existing);
  std::vector<RoomLeft> all{{fmt::format("free there ({})", space.type), space.free_bytes, space.free_inodes}};
  std::string none;  // a quota that nobody tells of is no quota
  if (const auto quota = preflight::read_quota(existing, space.type, none, run)) all.push_back(left_of_quota(*quota));
  std::vector<std::string> warnings;
  for (const RoomLeft& left : all)
    if (std::string warning = judge_room(needed, taken, left); !warning.empty()) warnings.push_back(std::move(warning));
  return warnings;
}

}  // namespace shoal::train
