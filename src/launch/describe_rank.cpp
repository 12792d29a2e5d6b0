#include "launch/describe_rank.h"

namespace shoal::launch {

RankPlace describe_rank(const Placement& placement, const SlurmEnvironment& slurm, const Machine& machine,
                        bool wants_gpus) {
  RankPlace place{.rank = placement.rank,
                  .node = placement.node,
                  .local_rank = placement.local_rank,
                  .local_size = placement.local_size,
                  .host = placement.host,
                  .cpus = machine.here()};
  // Under mpirun Slurm's numbers are those of its daemon.
  if (slurm.launcher == Launcher::srun && slurm.cpus_per_task)
    place.cpus_per_task = static_cast<int>(slurm.cpus_per_task->value);
  if (slurm.cpu_bind) place.cpu_bind = slurm.cpu_bind->value;
  if (slurm.gpus_on_node && wants_gpus) place.gpus_of_slurm = static_cast<int>(slurm.gpus_on_node->value);
  return place;
}

}  // namespace shoal::launch
