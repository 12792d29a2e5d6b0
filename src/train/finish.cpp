#include "train/finish.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/consolidate.h"
#include "core/check.h"
#include "core/logging.h"
#include "train/agreement.h"

namespace shoal::train {
namespace {

namespace fs = std::filesystem;

fs::path nearest_existing(fs::path path) {
  std::error_code error;
  path = fs::absolute(path);
  while (!fs::exists(path, error) && path.has_parent_path() && path != path.parent_path()) path = path.parent_path();
  return path;
}

// One rank works for as long as it takes, and the others must not give up on it.
class Patience {
 public:
  explicit Patience(comm::ProcessGroup& group) : group_(group), before_(group.timeout()) {
    group_.set_timeout(std::max<std::chrono::milliseconds>(before_, std::chrono::hours(24)));
  }
  ~Patience() { group_.set_timeout(before_); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  comm::ProcessGroup& group_;
  std::chrono::milliseconds before_;
};

}  // namespace

std::int64_t checkpoint_bytes(const StateDict& state) {
  std::int64_t bytes = 0;
  for (const ShardedTensor& tensor : state.tensors) bytes += tensor.spec.numel() * size_of(tensor.spec.dtype);
  return bytes;
}

void check_room(const TrainOptions& options, std::int64_t bytes_a_checkpoint) {
  const fs::path& directory = options.checkpoint.directory;
  const fs::path folder = nearest_existing(directory);
  SHOAL_CHECK(fs::is_directory(folder), IoError, "--checkpoint-dir {}: {} is no folder", directory.string(),
              folder.string());
  SHOAL_CHECK(access(folder.c_str(), W_OK | X_OK) == 0, IoError, "--checkpoint-dir {}: {} cannot be written: {}",
              directory.string(), folder.string(), std::strerror(errno));
  const auto needed =
      static_cast<std::uintmax_t>(bytes_a_checkpoint) * static_cast<std::uintmax_t>(options.checkpoint.keep + 1);
  const std::uintmax_t free = fs::space(folder).available;
  SHOAL_CHECK(free >= needed, IoError,
              "--checkpoint-dir {}: {} checkpoints of {} bytes (--keep {}, and one being written) need {} bytes, and "
              "{} are free there",
              directory.string(), options.checkpoint.keep + 1, bytes_a_checkpoint, options.checkpoint.keep, needed,
              free);
}

void write_output(comm::ProcessGroup& world, const fs::path& checkpoint, const fs::path& output) {
  const Patience patience(world);
  run_everywhere(world, [&]() -> std::string {
    if (world.rank() != 0) return "";
    const auto format =
        output.extension() == ".pt" ? checkpoint::ConsolidatedFormat::torch : checkpoint::ConsolidatedFormat::hdf5;
    const auto report = checkpoint::consolidate(
        {.checkpoint = checkpoint, .output = output, .format = format, .with_optimizer = false, .force = true});
    log::result("wrote {} ({} tensors, {:.1f} MiB)", output.string(), report.tensors,
                static_cast<double>(report.bytes) / (1 << 20));
    return "";
  });
}

}  // namespace shoal::train
