// Where the ranks are: Slurm against MPI, cores, and which GPU each would take.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/mpi_session.h"
#include "launch/rank_place.h"
#include "launch/variables.h"
#include "preflight/context.h"
#include "preflight/record.h"

namespace shoal::preflight {

// Collective over the job. Fills `places` for all ranks, each with the GPU that shoal train would give it; `devices`:
// auto, cpu (no GPU is looked at) or cuda.
CheckResult check_placement(Context& context, const launch::Placement& placement, const launch::Variables& variables,
                            const std::string& devices, std::vector<launch::RankPlace>& places);

// Chooses the GPUs and judges what came together: a failure of all ranks where they cannot be shared out, a warning on
// rank 0 for each thing that is slow.
std::vector<Record> judge_places(std::span<launch::RankPlace> places);

}  // namespace shoal::preflight
