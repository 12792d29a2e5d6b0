// The life of MPI in a program: started first, ended last, by the main thread.
#pragma once

#include <string>

#include "core/exit_code.h"

namespace shoal::launch {

// Who this process is in its job. A program that was started without a launcher is a job of one rank.
struct Placement {
  int rank = 0, size = 1;              // in the job
  int local_rank = 0, local_size = 1;  // among the ranks of this node, which are those that share its memory
  int node = 0, nodes = 1;             // of the job, numbered in the order of their first ranks
  std::string host;
};

class MpiSession {
 public:
  // Collective over the job. Starts MPI at the level MPI_THREAD_FUNNELED and lets its calls return their errors; gives
  // the logger its rank. Throws CommunicationError where MPI cannot do that, or gives another world than Slurm started;
  // OptionError where the environment of Slurm is damaged (launch_check.h). One session a process, ever.
  MpiSession(int* argc, char*** argv);
  // Collective over the job: ends MPI, unless an exception is on its way through. Then the other ranks may be waiting
  // in another call and would never come, so MPI is left to abort_job().
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  const Placement& placement() const noexcept { return placement_; }

 private:
  Placement placement_;
  int exceptions_at_start_;
};

// Ends all processes of the job, whatever they are waiting for; the launcher exits with `code`. For the last handler
// of errors in main(): it works before, during and after a session, and never returns to the caller's destructors.
[[noreturn]] void abort_job(ExitCode code) noexcept;

}  // namespace shoal::launch
