#include "checkpoint/remover.h"

#include <system_error>

#include "checkpoint/file_names.h"
#include "core/file_io.h"
#include "core/logging.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;

Remover::~Remover() {
  if (last_.valid()) last_.wait();
}

void Remover::remove(const fs::path& directory) {
  last_ = std::async(std::launch::async, [this, directory, before = last_] {
            if (before.valid()) before.wait();
            remove_files(directory);
          }).share();
}

void Remover::remove_files(const fs::path& directory) noexcept {
  try {
    std::error_code error;
    const bool link = fs::is_symlink(directory, error);  // what that leads to is somebody else's
    fs::directory_iterator files;
    if (!link) files = fs::directory_iterator(directory / kShardFolder, error);  // which others may have removed
    for (; !error && files != fs::directory_iterator(); files.increment(error), ++moves_) remove_tree(files->path());
    remove_tree(directory);
  } catch (const std::exception& exception) {
    log::warning("an old checkpoint stays until the next save: {}", exception.what());
  }
  ++moves_;
}

bool Remover::idle_within(std::chrono::milliseconds limit) const {
  return !last_.valid() || last_.wait_for(limit) == std::future_status::ready;
}

}  // namespace shoal::checkpoint
