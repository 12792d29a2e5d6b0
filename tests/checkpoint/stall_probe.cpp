// stall_probe FOLDER POINT RANK: a job that saves twice and restores. At the number POINT of SavePoint in the second
// save rank RANK stops for ever; POINT "restore": it does not come to the restore; "read": it stops in the middle of
// reading its part; "export": of a file that all ranks write at once, while the others are in MPI-IO.
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "checkpoint/checkpointer.h"
#include "checkpoint/collective_export.h"
#include "checkpoint/sample_state.h"
#include "comm/mpi_process_group.h"
#include "core/activity.h"
#include "core/error.h"
#include "core/file_calls.h"
#include "core/logging.h"
#include "launch/job_watch.h"

namespace {

using namespace shoal;

// Of what is read with elements in it: the second read of a shard file, after its table.
class StopsWhileReading final : public FileCalls {
 public:
  ssize_t pread(int descriptor, void* data, std::size_t bytes, off_t offset) override {
    const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
    if (path.parent_path().filename() == "shards" && ++reads_ > kTables) ::pause();
    return FileCalls::pread(descriptor, data, bytes, offset);
  }

 private:
  static constexpr int kTables = 2;  // of regions, and of places
  int reads_ = 0;
};

// Where there is no time limit but the watch's.
void export_by_all(comm::MpiProcessGroup& world, const std::filesystem::path& folder, bool stops) {
  const launch::JobWatch watch({.hang_timeout = std::chrono::seconds(2), .attempt = {}});
  const activity::During output(activity::Operation::output);
  StopsWhileReading calls;
  if (stops) use_file_calls(&calls);
  checkpoint::ExportOptions options;
  options.checkpoint = folder / "step_00000020";
  options.output = folder / "by_all.h5";
  checkpoint::export_collectively(world, options);
}

void run(comm::MpiProcessGroup& world, const std::string& folder, const std::string& point, int rank) {
  int saves = 0;
  checkpoint::CheckpointerOptions options;
  options.directory = folder;
  options.observer = [&](checkpoint::SavePoint passed) {
    if (saves == 2 && rank == world.rank() && point == std::to_string(static_cast<int>(passed))) ::pause();
  };
  checkpoint::Checkpointer checkpointer(world, options);
  const auto tensors = testing::sample_tensors();
  const StateDict state = testing::sample_state(tensors, world.rank(), world.size(), 1);
  for (const int step : {10, 20}) {
    ++saves;
    checkpointer.save(step, state, testing::kTrainingState);
  }
  if (point == "restore" && rank == world.rank()) ::pause();
  if (point == "export") return export_by_all(world, folder, rank == world.rank());
  StopsWhileReading stops;
  if (point == "read" && rank == world.rank()) use_file_calls(&stops);
  StateDict blank = testing::blank_state(tensors, world.rank(), world.size());
  checkpointer.restore(blank, "auto");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) return 2;
  comm::MpiProcessGroup world(MPI_COMM_WORLD);
  world.set_timeout(std::chrono::milliseconds(700));
  log::set_rank(world.rank());
  try {
    run(world, argv[1], argv[2], std::atoi(argv[3]));
  } catch (const Error& error) {
    log::error("{}", error.what());
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error.exit_code()));
  }
  return 0;
}
