#include "checkpoint/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/check.h"
#include "core/file_calls.h"
#include "core/host_name.h"
#include "core/logging.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

// Whoever held the lock before may have removed the file between our opening and our locking it.
bool is_still(int descriptor, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

std::string holder(const fs::path& path) {
  try {
    const std::string text = read_text_file(path);
    return text.empty() ? "another process" : text.substr(0, text.find('\n'));
  } catch (const Error&) {
    return "another process";
  }
}

}  // namespace

fs::path lock_path(const fs::path& output) {
  const fs::path clean = fs::absolute(output).lexically_normal();
  return (clean.has_filename() ? clean : clean.parent_path()).string() + ".lock";
}

OutputLock::OutputLock(const fs::path& output) : path_(lock_path(output)) {
  while (!try_to_hold()) {
  }
}

bool OutputLock::try_to_hold() {
  descriptor_.reset(file_calls().open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!descriptor_) throw_io_error("write", path_, errno);
  while (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    SHOAL_CHECK(errno != EWOULDBLOCK, OptionError,
                "{} holds {}: it is writing there; wait for it, or give another --output", holder(path_),
                path_.string());
    log::info("{} cannot be locked: nothing keeps a second command from writing there at the same time",
              path_.string());
    return true;
  }
  if (!is_still(descriptor_.get(), path_)) return false;
  note_holder();
  return true;
}

void OutputLock::note_holder() {
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host_name());
  if (file_calls().ftruncate(descriptor_.get(), 0) != 0 ||
      file_calls().pwrite(descriptor_.get(), text.data(), text.size(), 0) < 0)
    throw_io_error("write", path_, errno);
}

OutputLock::~OutputLock() { try_remove(path_); }

}  // namespace shoal::checkpoint
