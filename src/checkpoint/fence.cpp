#include "checkpoint/fence.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "checkpoint/file_names.h"
#include "checkpoint/leftovers.h"
#include "core/check.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

void pass(const FenceObserver& observer, FencePoint point) {
  if (observer) observer(point);
}

struct Numbers {
  int taken = 0, writer = 0;  // the largest; 0: none
};

Numbers numbers_in(const fs::path& folder) {
  Numbers largest;
  std::error_code error;
  for (fs::directory_iterator files(folder, error); !error && files != fs::directory_iterator();
       files.increment(error)) {
    const auto name = parse_attempt_file_name(files->path().filename().string());
    if (!name) continue;
    largest.taken = std::max(largest.taken, name->attempt);
    if (name->writer) largest.writer = std::max(largest.writer, name->attempt);
  }
  if (error) throw_io_error("read the directory", folder, error.value());
  return largest;
}

// Of an attempt that may be gone again, or have been killed before it could say who it is.
std::string who_is(const fs::path& path) {
  std::error_code absent;
  if (!fs::exists(path, absent)) return "";
  const std::string text = read_text_file(path);
  const std::size_t begin = text.find('\n'), end = text.find('\n', begin + 1);
  return begin == std::string::npos ? "" : fmt::format(" ({})", text.substr(begin + 1, end - begin - 1));
}

}  // namespace

Fence Fence::take(const fs::path& directory, int above, const std::string& who, const FenceObserver& observer) {
  const fs::path folder = directory / kAttemptFolder;
  make_directories(folder);
  // The first line makes the file this attempt's own, should the directory be emptied and numbered anew.
  const std::string text = fmt::format("{}\n{}\n", make_checkpoint_id(), who);
  int number = std::max(above, numbers_in(folder).taken) + 1;
  // Of those who come at the same time one gets the name, the others go on to the next.
  while (!create_text_file(folder / attempt_file_name(number, false), text)) ++number;
  pass(observer, FencePoint::number_taken);
  return {directory, number, text};
}

Fence Fence::watch(const fs::path& directory) {
  const fs::path folder = directory / kAttemptFolder;
  std::error_code error;
  const bool exists = fs::exists(folder, error);
  SHOAL_CHECK(!error, IoError, "cannot examine {}: {}", folder.string(), error.message());
  return {directory, exists ? numbers_in(folder).writer : 0, ""};
}

void Fence::enter(const FenceObserver& observer) const {
  const fs::path folder = directory_ / kAttemptFolder;
  check();
  create_text_file(folder / attempt_file_name(number_, true), text_);
  pass(observer, FencePoint::entered);
  check();  // two may have come this far at the same time
  sweep_leftovers(directory_, number_, [&] { pass(observer, FencePoint::leftover_set_aside); });
  restore_displaced(directory_);
  sync_directory(directory_);
  pass(observer, FencePoint::swept);
}

void Fence::check_unchanged() const {
  const int newest = watch(directory_).number_;
  SHOAL_CHECK(newest == number_, SupersededError,
              "attempt {}{} has taken over {} meanwhile; the rest is left alone: run this again", newest,
              who_is(directory_ / kAttemptFolder / attempt_file_name(newest, true)), directory_.string());
}

void Fence::check() const {
  if (text_.empty()) return check_unchanged();
  const fs::path folder = directory_ / kAttemptFolder;
  const fs::path mine = folder / attempt_file_name(number_, false);
  std::error_code error;
  const bool exists = fs::exists(mine, error);
  SHOAL_CHECK(!error, IoError, "cannot examine {}: {}", mine.string(), error.message());
  SHOAL_CHECK(
      exists && read_text_file(mine) == text_, SupersededError,
      "attempt {} no longer finds its mark {}: the directory was emptied or replaced while it ran; it leaves the "
      "checkpoints there alone and ends",
      number_, mine.string());
  const int newest = numbers_in(folder).writer;
  SHOAL_CHECK(
      newest <= number_, SupersededError,
      "attempt {} is superseded: attempt {}{} has taken over {}; this one leaves the checkpoints there alone and "
      "ends",
      number_, newest, who_is(folder / attempt_file_name(newest, true)), directory_.string());
}

}  // namespace shoal::checkpoint
