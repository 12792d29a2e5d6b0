// Environments as Slurm 22.05 and Open MPI 4.1 made them on four nodes, cut down to the variables that say something.
#pragma once

#include "launch/variables.h"

namespace shoal::launch::samples {

// `more` wins over what is there.
inline Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

inline Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

// srun --mpi=pmix -N3 -n4 within a job of four nodes and eight tasks: the third of the tasks.
inline Variables uneven_step() {
  return {{"SLURM_JOB_ID", "41"},
          {"SLURM_JOBID", "41"},
          {"SLURM_JOB_NAME", "train"},
          {"SLURM_CLUSTER_NAME", "sandbox"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEPID", "0"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_STEP_NODELIST", "n[1-3]"},
          {"SLURM_STEP_TASKS_PER_NODE", "2,1(x2)"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_NPROCS", "4"},
          {"SLURM_NNODES", "3"},
          {"SLURM_JOB_NUM_NODES", "4"},
          {"SLURM_NODELIST", "n[1-4]"},
          {"SLURM_JOB_NODELIST", "n[1-4]"},
          {"SLURM_TASKS_PER_NODE", "2,1(x2)"},
          {"SLURM_PROCID", "2"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "1"},
          {"SLURM_GTIDS", "2"},
          {"SLURMD_NODENAME", "n2"},
          {"SLURM_CPUS_ON_NODE", "2"},
          {"SLURM_JOB_CPUS_PER_NODE", "2(x4)"},
          {"SLURM_MPI_TYPE", "pmix"},
          {"PMIX_RANK", "2"},
          {"PMIX_NAMESPACE", "slurm.pmix.41.0"}};
}

// The script of sbatch --ntasks=8 on four nodes, in its second life.
inline Variables batch_shell() {
  return {{"SLURM_JOB_ID", "41"},
          {"SLURM_JOBID", "41"},
          {"SLURM_NTASKS", "8"},
          {"SLURM_NPROCS", "8"},
          {"SLURM_NNODES", "4"},
          {"SLURM_JOB_NUM_NODES", "4"},
          {"SLURM_JOB_NODELIST", "n[1-4]"},
          {"SLURM_NODELIST", "n[1-4]"},
          {"SLURM_TASKS_PER_NODE", "2(x4)"},
          {"SLURM_PROCID", "0"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "0"},
          {"SLURM_GTIDS", "0"},
          {"SLURM_RESTART_COUNT", "1"},
          {"SLURMD_NODENAME", "n1"},
          {"ENVIRONMENT", "BATCH"},
          {"SLURM_CPUS_PER_TASK", "1"}};
}

// salloc -N4 -n8: a shell on the host where it was called.
inline Variables salloc_shell() {
  return {{"SLURM_JOB_ID", "42"},           {"SLURM_NTASKS", "8"},        {"SLURM_NPROCS", "8"},
          {"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_NODELIST", "n[1-4]"}, {"SLURM_TASKS_PER_NODE", "2(x4)"},
          {"SLURM_JOB_NUM_NODES", "4"},     {"SLURM_NNODES", "4"}};
}

// The same where LaunchParameters has use_interactive_step: the values of the job stay, those of the step are its own.
inline Variables interactive_step() {
  return with(salloc_shell(), {{"SLURM_STEP_ID", "4294967290"},
                               {"SLURM_STEP_NUM_TASKS", "1"},
                               {"SLURM_STEP_NUM_NODES", "1"},
                               {"SLURM_STEP_NODELIST", "n1"},
                               {"SLURM_STEP_TASKS_PER_NODE", "1"},
                               {"SLURM_PROCID", "0"},
                               {"SLURM_LOCALID", "0"},
                               {"SLURM_NODEID", "0"}});
}

// srun --het-group=0,1 with 1 task on n1 and 2 on n2: the last of them.
inline Variables heterogeneous_step() {
  return {{"SLURM_JOB_ID", "50"},
          {"SLURM_HET_SIZE", "2"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NODELIST", "n[1-2]"},
          {"SLURM_STEP_TASKS_PER_NODE", "1,2"},
          {"SLURM_NODELIST", "n[1-2]"},
          {"SLURM_NTASKS", "3"},
          {"SLURM_NPROCS", "2"},
          {"SLURM_NTASKS_HET_GROUP_1", "2"},
          {"SLURM_PROCID", "2"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_GTIDS", "1,2"},
          {"PMIX_RANK", "2"}};
}

// What mpirun adds.
inline Variables under_mpirun(const Variables& around) {
  return with(around, {{"OMPI_MCA_orte_launch", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_RANK", "3"},
                       {"PMIX_RANK", "3"},
                       {"PMIX_NAMESPACE", "2131755009"}});
}

}  // namespace shoal::launch::samples
