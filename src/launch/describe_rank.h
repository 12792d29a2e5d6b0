// What a rank knows of its own place.
#pragma once

#include "launch/machine.h"
#include "launch/mpi_session.h"
#include "launch/rank_place.h"
#include "launch/slurm_environment.h"

namespace shoal::launch {

// All of this rank's place but the GPUs that it sees. `wants_gpus`: the number that Slurm gave is told too.
RankPlace describe_rank(const Placement& placement, const SlurmEnvironment& slurm, const Machine& machine,
                        bool wants_gpus);

}  // namespace shoal::launch
