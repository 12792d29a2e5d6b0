// Whether the values that Slurm gave belong together.
#pragma once

namespace shoal::launch {

struct SlurmEnvironment;

// Adds to `slurm.faults` what cannot be within a step, each with the variables and their values, and to `slurm.notes`
// what does not fit together in the values of the job. Those are what was asked for, and an outer srun may have changed
// a part of them.
void check_consistency(SlurmEnvironment& slurm);

}  // namespace shoal::launch
