// What Slurm says of this process, read from its environment: read here, nowhere else. The values of the step
// (SLURM_STEP_…) come before those of the job, because `srun --preserve-env`, with which the shell of salloc is started
// on a node, leaves the latter as they were for the whole job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/variable_reader.h"
#include "launch/variables.h"

namespace shoal::launch {

enum class SlurmContext {
  none,               // no job of Slurm around this process
  batch_shell,        // the script of sbatch itself
  interactive_shell,  // the shell of salloc, on the host where it was called
  interactive_step,   // the shell of salloc on a node (LaunchParameters=use_interactive_step)
  extern_step,        // a login that was adopted into the job
  step,               // started by srun
};
const char* name_of(SlurmContext context) noexcept;  // "the batch shell"

// What started this process. Under mpirun the ids of Slurm are those of its daemon, and say nothing of the ranks.
enum class Launcher { none, srun, mpirun };
const char* name_of(Launcher launcher) noexcept;

// The process manager's interface that an MPI library could use to find the other ranks.
enum class Pmi { none, pmi, pmix };
const char* name_of(Pmi pmi) noexcept;

struct SlurmEnvironment {
  SlurmContext context = SlurmContext::none;
  Launcher launcher = Launcher::none;
  Pmi pmi = Pmi::none;

  Maybe<std::int64_t> job_id, step_id, array_job_id, array_task_id, het_size, restart_count;
  Maybe<std::string> job_name, cluster;
  Maybe<std::int64_t> procid, localid, nodeid;  // of all components of a heterogeneous step together
  Maybe<std::int64_t> tasks, nodes;
  Maybe<std::vector<std::string>> hosts;   // one a node, in Slurm's order
  Maybe<std::vector<int>> tasks_per_node;  // in the order of `hosts`
  Maybe<std::vector<int>> tasks_here;      // the global ids of this node's tasks
  Maybe<std::int64_t> cpus_per_task, cpus_on_node, gpus_on_node;
  Maybe<std::string> cpu_bind, step_gpus, job_gpus, node_name, pmix_fence;
  Maybe<std::int64_t> start_time, end_time;  // seconds since 1970

  std::vector<EnvironmentRow> rows;  // all of the above as they stand there, in the order in which they were read
  std::vector<std::string> faults;   // variables that are malformed, or contradict each other within the step
  std::vector<std::string> notes;    // contradictions in the values of the job, which need not be mistakes

  bool in_job() const { return context != SlurmContext::none; }
  // The job as scontrol, squeue and scancel must be told it: "120_3" for a task of an array, since 123 may stand for
  // the whole array. Empty outside of a job.
  std::string job_name_for_slurm() const;
};

// Throws nothing for what the environment holds: see faults.
SlurmEnvironment read_slurm_environment(const Variables& variables);

// OptionError that names every fault; nothing where there is none.
void require_sound(const SlurmEnvironment& slurm);

// "step 0 of job 120_3, started by srun: task 2 of 4 on n2"
std::string describe(const SlurmEnvironment& slurm);

}  // namespace shoal::launch
