#include "checkpoint/export_team.h"

#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "checkpoint/file_names.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/file_io.h"
#include "core/logging.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr double kPatienceSeconds = 600;
constexpr std::chrono::milliseconds kPause{100};

// What follows the token, where the file is of this start.
std::optional<std::string> message_of(const fs::path& path, const std::string& token) {
  std::error_code absent;
  if (!fs::exists(path, absent)) return std::nullopt;
  const std::string text = read_text_file(path), heading = token + "\n";
  if (!text.starts_with(heading)) return std::nullopt;
  return text.substr(heading.size());
}

std::uintmax_t size_of(const fs::path& path) {
  std::error_code absent;
  const std::uintmax_t bytes = fs::file_size(path, absent);
  return absent ? 0 : bytes;
}

}  // namespace

fs::path ExportTeam::journal_of(int index) const { return stem_.string() + fmt::format(".journal.{}", index); }
fs::path ExportTeam::ready_path() const { return stem_.string() + ".ready"; }
fs::path ExportTeam::report_path(int index) const { return stem_.string() + fmt::format(".end.{}", index); }

void ExportTeam::announce(const std::string& failure) const {
  replace_text_file(ready_path(), member_.token + "\n" + failure);
}

void ExportTeam::await_leader() const {
  std::optional<std::string> failure;
  for (const Timer timer; !(failure = message_of(ready_path(), member_.token));) {
    SHOAL_CHECK(timer.seconds() < kPatienceSeconds, IoError,
                "process {} of {}: process 0 has not made {} in ten minutes", member_.index, member_.count,
                stem_.string());
    std::this_thread::sleep_for(kPause);
    activity::progressed();
  }
  SHOAL_CHECK(failure->empty(), IoError, "process {} of {}: process 0 failed: {}", member_.index, member_.count,
              *failure);
}

void ExportTeam::report(const std::string& failure) const {
  replace_text_file(report_path(member_.index), member_.token + "\n" + failure);
}

void ExportTeam::await_others() const {
  for (int index = 1; index < member_.count; ++index) {
    std::optional<std::string> failure;
    std::uintmax_t journal = 0;
    for (Timer quiet; !(failure = message_of(report_path(index), member_.token));) {
      const std::uintmax_t now = size_of(journal_of(index));
      if (now != journal) quiet.restart();
      journal = now;
      SHOAL_CHECK(quiet.seconds() < kPatienceSeconds, IoError,
                  "process {} of {} has done nothing for ten minutes; the same command goes on with what is finished",
                  index, member_.count);
      std::this_thread::sleep_for(kPause);
      activity::progressed();
    }
    SHOAL_CHECK(failure->empty(), IoError, "process {} of {} failed: {}", index, member_.count, *failure);
  }
}

void ExportTeam::tidy_up() const {
  const std::string begin = stem_.filename().string() + ".";
  std::error_code error;
  for (fs::directory_iterator entries(directory_of(stem_), error), end; !error && entries != end;
       entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with(begin)) continue;
    const std::string_view rest = std::string_view(name).substr(begin.size());
    if (rest != "ready" && !rest.starts_with("end.") && !rest.starts_with("journal.") && !is_checkpoint_id(rest))
      continue;
    if (const std::error_code kept = try_remove(entries->path()))
      log::warning("{} could not be removed: {}", entries->path().string(), kept.message());
  }
}

}  // namespace shoal::checkpoint
