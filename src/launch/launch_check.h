// Whether the world that MPI gives is the one that Slurm started. Mistakes in the launch command show here, with the
// flag to change, and not as a hang or as many jobs of one rank.
#pragma once

#include <string>
#include <vector>

#include "launch/slurm_environment.h"

namespace shoal::launch {

struct Placement;

enum class MpiLibrary { open_mpi, other };

// Before MPI_Init: OptionError where the environment is damaged (require_sound), CommunicationError where MPI would not
// find the other ranks. Open MPI would abort within MPI_Init, others would become many jobs of one rank.
void check_before_mpi(const SlurmEnvironment& slurm, MpiLibrary library);

// What to tell before MPI_Init, since the library might not let the program tell it afterwards; empty: nothing. On the
// first task alone.
std::string warning_before_mpi(const SlurmEnvironment& slurm, MpiLibrary library);

// After it, on each rank for itself: CommunicationError where rank or number of ranks are not those of Slurm's step.
void check_world(const SlurmEnvironment& slurm, const Placement& placement);

// What works but is hardly meant: one rank where Slurm has room for several, because srun was not used; a node that is
// split among containers. Each is a line.
std::vector<std::string> launch_warnings(const SlurmEnvironment& slurm, const Placement& placement);

}  // namespace shoal::launch
