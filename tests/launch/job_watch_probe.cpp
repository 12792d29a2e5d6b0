// job_watch_probe HOW RUN_DIR HANG_TIMEOUT: a job that would never end by itself, until its last rank, in step 20,
//   throws       fails with an error of its own (the others wait for it)
//   crashes      reads where nothing is
//   is_killed    gets SIGKILL
//   exits        calls _exit(9), as a library may
//   stops        gets SIGSTOP, in the save of a checkpoint
//   loops        never comes out of reading data
//   ends         leaves the loop, as all others do
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/activity.h"
#include "core/error.h"
#include "core/logging.h"
#include "launch/first_failure.h"
#include "launch/job_watch.h"
#include "launch/mpi_session.h"

namespace {

using namespace shoal;
using activity::Operation;

volatile int* g_nowhere = nullptr;

void fail(std::string_view how) {
  if (how == "throws") throw DataError("the file of samples is cut");
  if (how == "crashes") *g_nowhere = 1;
  if (how == "is_killed") raise(SIGKILL);
  if (how == "exits") _exit(9);
  if (how == "stops") {
    activity::enter(Operation::save);
    raise(SIGSTOP);
  }
  activity::enter(Operation::data);
  while (how == "loops") usleep(1000);
}

// As the groups of comm wait: MPI is asked again and again, and so is the watch.
void sum_over_ranks() {
  int sum = 1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  for (int done = 0; !done;) {
    activity::leave_if_asked();
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    usleep(100);
  }
}

void run(std::string_view how, const launch::Placement& here) {
  for (int step = 1; how != "ends" || step < 100; ++step) {
    activity::begin_step(step);
    activity::enter(Operation::backward, 1);
    if (step == 20 && here.rank == here.size - 1) fail(how);
    sum_over_ranks();
  }
}

void session(int argc, char** argv, std::optional<launch::JobWatch>& watch) {
  const launch::MpiSession mpi(&argc, &argv);
  const launch::RunDirectory directory(argv[2]);
  directory.make();
  watch.emplace(launch::JobWatchOptions{.hang_timeout = std::chrono::milliseconds(std::atoi(argv[3]) * 1000),
                                        .attempt = launch::RunAttempt{directory, 1}});
  activity::name_units(std::vector<std::string>{"(root)", "h.6"});
  run(argv[1], mpi.placement());
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<shoal::launch::JobWatch> watch;
  try {
    session(argc, argv, watch);
    return 0;
  } catch (const activity::Leaving& leaving) {
    launch::abort_job(leaving.exit_code());
  } catch (const Error& error) {
    activity::leave_with(static_cast<int>(error.exit_code()));
    launch::record_failure(static_cast<int>(error.exit_code()), error.what());
    log::error("{}", error.what());
    launch::abort_job(error.exit_code());
  }
}
