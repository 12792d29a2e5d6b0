#include "train/finish.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/collective_export.h"
#include "comm/mpi_process_group.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/logging.h"
#include "train/agreement.h"
#include "train/checkpoint_room.h"

namespace shoal::train {
namespace {

namespace fs = std::filesystem;

double mebibytes(std::uintmax_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

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

void tell(const fs::path& output, const checkpoint::ExportReport& report) {
  log::result("wrote {} ({} tensors, {:.1f} MiB)", output.string(), report.tensors,
              mebibytes(static_cast<std::uintmax_t>(report.bytes)));
}

// Collective over `world`.
void write_by_all(comm::ProcessGroup& world, checkpoint::ExportOptions& options) {
  auto* const mpi = dynamic_cast<comm::MpiProcessGroup*>(&world);
  SHOAL_CHECK(mpi != nullptr, InternalError, "--output-driver mpio on ranks of {}", world.backend());
  const activity::During writing(activity::Operation::output);
  options.piece_bytes = checkpoint::kCollectivePieceBytes;
  run_agreeing([&] {
    const auto report = checkpoint::export_collectively(*mpi, options);
    if (world.rank() == 0) tell(options.output, report);
  });
}

}  // namespace

fs::path check_checkpoint_dir(const TrainOptions& options) {
  const std::string option = "--checkpoint-dir " + options.checkpoint.directory.string();
  fs::path folder = nearest_existing(options.checkpoint.directory);
  std::error_code error;
  SHOAL_CHECK(fs::is_directory(folder, error), IoError, "{}: {} is no folder", option, folder.string());
  SHOAL_CHECK(access(folder.c_str(), W_OK | X_OK) == 0, IoError, "{}: {} cannot be written: {}", option,
              folder.string(), std::strerror(errno));
  return folder;
}

void check_room(const TrainOptions& options, std::int64_t bytes_a_checkpoint, int ranks) {
  constexpr double kBesideTensors = 64 << 10;  // of a file: its structure, and the gaps before aligned data
  const fs::path existing = check_checkpoint_dir(options);
  const RoomNeeded needed{.directory = options.checkpoint.directory,
                          .bytes = static_cast<double>(bytes_a_checkpoint) + kBesideTensors * ranks,
                          .files = static_cast<double>(ranks) + kFilesBesideRanks,
                          .keep = options.checkpoint.keep};
  for (const std::string& warning : check_room(needed, existing)) log::warning("{}", warning);
}

void write_output(comm::ProcessGroup& world, const fs::path& checkpoint, const CheckpointOptions& options) {
  const fs::path& output = options.output;
  checkpoint::ExportOptions wanted{.checkpoint = checkpoint, .output = output, .selection = {}, .force = true};
  if (options.output_driver == "mpio") {
    write_by_all(world, wanted);
    return;
  }
  const Patience patience(world);
  const activity::During writing(world.rank() == 0 ? activity::Operation::output : activity::Operation::waiting);
  run_everywhere(world, [&]() -> std::string {
    if (world.rank() != 0) return "";
    if (output.extension() == ".pt") wanted.format = checkpoint::ExportFormat::torch;
    tell(output, checkpoint::export_checkpoint(wanted));
    return "";
  });
}

}  // namespace shoal::train
