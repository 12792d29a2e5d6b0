#include "launch/launch_check.h"

#include "core/check.h"
#include "launch/mpi_session.h"

namespace shoal::launch {
namespace {

constexpr const char* kWhichTypes = "srun --mpi=pmix, or another type that `srun --mpi=list` shows and this MPI knows";

bool is_task(const SlurmEnvironment& slurm) { return slurm.launcher == Launcher::srun; }

}  // namespace

void check_before_mpi(const SlurmEnvironment& slurm, MpiLibrary library) {
  require_sound(slurm);
  if (slurm.launcher == Launcher::mpirun || slurm.pmi != Pmi::none) return;
  if (is_task(slurm))
    SHOAL_CHECK(
        library == MpiLibrary::other && slurm.tasks->value == 1, CommunicationError,
        "srun started {} task{} without a process manager (PMI), so that MPI cannot find the others: it ran with "
        "--mpi=none, given or by default; use {}",
        slurm.tasks->value, slurm.tasks->value == 1 ? "" : "s", kWhichTypes);
  // Open MPI takes the shell for a task of srun, finds no PMI and aborts.
  SHOAL_CHECK(
      slurm.context != SlurmContext::interactive_step || library == MpiLibrary::other, CommunicationError,
      "this is {} of job {}, in which Open MPI cannot start a program directly: use srun -n RANKS --mpi=pmix, or "
      "mpirun -n RANKS",
      name_of(slurm.context), slurm.job_name_for_slurm());
}

std::string warning_before_mpi(const SlurmEnvironment& slurm, MpiLibrary library) {
  const bool first = is_task(slurm) && slurm.procid && slurm.procid->value == 0;
  if (!first || library != MpiLibrary::open_mpi) return "";
  const bool waits = slurm.pmix_fence && slurm.pmix_fence->value == "ring";
  if (slurm.pmi == Pmi::pmix && slurm.nodes && slurm.nodes->value > 1 && !waits)
    return "MPI_Init does not wait for the other nodes by Slurm's default, and a rank that is late there may end with "
           "a segmentation fault at address (nil): export SLURM_PMIX_FENCE=ring before srun, as the job scripts and "
           "the module of Shoal do";
  if (slurm.pmi != Pmi::pmi) return "";
  return fmt::format(
      "srun offers PMI-1 or 2, which few builds of Open MPI know: should MPI_Init stop the program now, use {}",
      kWhichTypes);
}

void check_world(const SlurmEnvironment& slurm, const Placement& placement) {
  if (!is_task(slurm)) return;
  const std::int64_t tasks = slurm.tasks->value;
  SHOAL_CHECK(placement.size > 1 || tasks == 1, CommunicationError,
              "MPI came up with 1 rank in each of the {} tasks of this step: it does not know the process manager that "
              "srun offers ({}); use {}",
              tasks, name_of(slurm.pmi), kWhichTypes);
  SHOAL_CHECK(
      placement.size == tasks, CommunicationError,
      "MPI has {} ranks, but the step has {} tasks ({}): check --mpi= of srun, and that no variable of an outer "
      "job or mpirun is passed on (srun --export)",
      placement.size, tasks, slurm.tasks->variable);
  SHOAL_CHECK(placement.rank == slurm.procid->value, CommunicationError,
              "this is rank {} of MPI, but task {} of the step (SLURM_PROCID): check --mpi= of srun, and that the job "
              "script does not set SLURM_PROCID",
              placement.rank, slurm.procid->value);
}

std::vector<std::string> launch_warnings(const SlurmEnvironment& slurm, const Placement& placement) {
  std::vector<std::string> warnings;
  const bool in_shell = slurm.in_job() && slurm.launcher == Launcher::none;
  if (in_shell && placement.size == 1 && slurm.tasks && slurm.tasks->value > 1)
    warnings.push_back(
        fmt::format("this is one rank in {}, which has room for {} tasks ({}): start the program by srun "
                    "to use them",
                    name_of(slurm.context), slurm.tasks->value, slurm.tasks->variable));
  if (!is_task(slurm) && slurm.context != SlurmContext::interactive_step && slurm.cpu_bind && slurm.in_job())
    warnings.push_back(
        fmt::format("SLURM_CPU_BIND is {}, left over from an outer srun: every srun below takes it over; "
                    "unset it",
                    slurm.cpu_bind->value));
  const auto& counts = slurm.tasks_per_node;
  if (!is_task(slurm) || !counts || !slurm.nodeid) return warnings;
  const auto node = static_cast<std::size_t>(slurm.nodeid->value);
  const int here = node < counts->value.size() ? counts->value[node] : placement.local_size;
  if (here != placement.local_size)
    warnings.push_back(
        fmt::format("rank {} shares memory with {} ranks, but its node {} has {} tasks: if each rank has "
                    "its own container, let those of a node share one, or their GPUs cannot talk directly",
                    placement.rank, placement.local_size, placement.host, here));
  return warnings;
}

}  // namespace shoal::launch
