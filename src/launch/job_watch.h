// What watches over a training job from its first agreed option to the end of the process: slots that neighbours see,
// records of crashes, the watch for hangs and for ranks that are gone.
#pragma once

#include <chrono>
#include <optional>

#include "core/watch.h"
#include "launch/hang_watch.h"
#include "launch/node_slots.h"
#include "launch/run_directory.h"

namespace shoal::launch {

struct JobWatchOptions {
  std::chrono::milliseconds hang_timeout{std::chrono::minutes(10)};  // 0: hangs are not looked for
  std::optional<RunAttempt> attempt;                                 // nothing: there is no run directory
};

class JobWatch {
 public:
  // Collective over MPI_COMM_WORLD. What a job whose last attempt ended without a record was last seen doing becomes
  // its record now. Outlives whatever waits in MPI, and MPI too.
  explicit JobWatch(const JobWatchOptions& options);
  // The process is about to end in good order.
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

 private:
  NodeSlots node_;
  std::optional<HangWatch> hangs_;
  std::optional<Watch> watch_;  // the last member: its thread uses the others
};

}  // namespace shoal::launch
