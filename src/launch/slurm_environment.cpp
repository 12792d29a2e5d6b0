#include "launch/slurm_environment.h"

#include <array>

#include "core/check.h"
#include "launch/hostlist.h"
#include "launch/slurm_consistency.h"

namespace shoal::launch {
namespace {

// Steps that are no steps of srun (slurm/slurm.h).
constexpr std::int64_t kInteractiveStep = 0xfffffffa, kBatchStep = 0xfffffffb, kExternStep = 0xfffffffc;

std::int64_t number(std::string_view text) { return parse_number(text); }
std::int64_t positive(std::string_view text) { return parse_number(text, 1); }
std::int64_t small(std::string_view text) { return parse_number(text, 0, INT32_MAX); }
std::int64_t small_positive(std::string_view text) { return parse_number(text, 1, INT32_MAX); }
std::int64_t unsigned_32(std::string_view text) { return parse_number(text, 0, UINT32_MAX); }
std::string as_it_is(std::string_view text) { return std::string(text); }

std::vector<std::string> some_hosts(std::string_view text) {
  auto hosts = expand_hostlist(text);
  SHOAL_CHECK(!hosts.empty(), OptionError, "'{}' names no host", text);
  return hosts;
}

void read_job(VariableReader& in, SlurmEnvironment& slurm) {
  slurm.job_id = in.find("job", {"SLURM_JOB_ID", "SLURM_JOBID"}, positive);
  slurm.job_name = in.find("job name", {"SLURM_JOB_NAME"}, as_it_is);
  slurm.cluster = in.find("cluster", {"SLURM_CLUSTER_NAME"}, as_it_is);
  slurm.array_job_id = in.find("array job", {"SLURM_ARRAY_JOB_ID"}, positive);
  slurm.array_task_id = in.find("array task", {"SLURM_ARRAY_TASK_ID"}, number);
  slurm.het_size = in.find("components (heterogeneous job)", {"SLURM_HET_SIZE", "SLURM_PACK_SIZE"}, small_positive);
  slurm.restart_count = in.find("restarts", {"SLURM_RESTART_COUNT"}, small);
  slurm.start_time = in.find("start time", {"SLURM_JOB_START_TIME"}, positive);
  slurm.end_time = in.find("end time", {"SLURM_JOB_END_TIME"}, positive);
}

void read_step(VariableReader& in, SlurmEnvironment& slurm) {
  slurm.step_id = in.find("step", {"SLURM_STEP_ID", "SLURM_STEPID"}, unsigned_32);
  slurm.procid = in.find("task (rank)", {"SLURM_PROCID"}, small);
  slurm.localid = in.find("task on this node", {"SLURM_LOCALID"}, small);
  slurm.nodeid = in.find("node number", {"SLURM_NODEID"}, small);
  slurm.node_name = in.find("node", {"SLURMD_NODENAME"}, as_it_is);
  slurm.tasks = in.find("tasks", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, small_positive);
  slurm.nodes = in.find("nodes", {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, small_positive);
  slurm.hosts = in.find("hosts", {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}, some_hosts);
  slurm.tasks_per_node =
      in.find("tasks per node", {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}, expand_counts);
  slurm.tasks_here = in.find("tasks of this node", {"SLURM_GTIDS"}, expand_counts);
  slurm.pmix_fence = in.find("fence of PMIx", {"SLURM_PMIX_FENCE"}, as_it_is);
}

void read_hardware(VariableReader& in, SlurmEnvironment& slurm) {
  slurm.cpus_per_task = in.find("CPUs per task", {"SLURM_CPUS_PER_TASK"}, small_positive);
  slurm.cpus_on_node = in.find("CPUs on this node", {"SLURM_CPUS_ON_NODE"}, small_positive);
  in.find("CPUs per node of the job", {"SLURM_JOB_CPUS_PER_NODE"}, expand_counts);
  slurm.cpu_bind = in.find("CPU binding", {"SLURM_CPU_BIND"}, as_it_is);
  slurm.gpus_on_node = in.find("GPUs on this node", {"SLURM_GPUS_ON_NODE"}, small);
  slurm.step_gpus = in.find("GPUs of the step (numbers of the node)", {"SLURM_STEP_GPUS"}, as_it_is);
  slurm.job_gpus = in.find("GPUs of the job (numbers of the node)", {"SLURM_JOB_GPUS"}, as_it_is);
  in.find("GPUs that CUDA shows", {"CUDA_VISIBLE_DEVICES"}, as_it_is);
  in.find("MPI type", {"SLURM_MPI_TYPE"}, as_it_is);
}

SlurmContext context_of(const VariableReader& in, const SlurmEnvironment& slurm) {
  if (slurm.step_id) {
    switch (slurm.step_id->value) {
      case kInteractiveStep: return SlurmContext::interactive_step;
      case kBatchStep: return SlurmContext::batch_shell;
      case kExternStep: return SlurmContext::extern_step;
      default: return SlurmContext::step;
    }
  }
  // Without its number a step is still one: only srun gives these. MPI libraries then take every rank for a singleton.
  if (in.is_set("SLURM_STEP_NUM_TASKS")) return SlurmContext::step;
  if (!in.is_set("SLURM_JOB_ID") && !in.is_set("SLURM_JOBID")) return SlurmContext::none;
  return in.is_set("SLURM_PROCID") ? SlurmContext::batch_shell : SlurmContext::interactive_shell;
}

bool any_set(const VariableReader& in, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (in.is_set(name)) return true;
  return false;
}

// The marks that the daemons of Open MPI up to 4, Open MPI from 5 on, and MPICH leave on their ranks.
// OMPI_COMM_WORLD_SIZE is none: MPI_Init sets it under srun too. A singleton of Open MPI gets a daemon of its own in
// MPI_Init, and its mark.
Launcher launcher_of(const VariableReader& in, SlurmContext context) {
  const bool is_singleton = in.is("OMPI_MCA_ess", "singleton");
  if (any_set(in, {"OMPI_MCA_orte_launch", "PRTE_LAUNCHED", "HYDI_CONTROL_FD"}) && !is_singleton)
    return Launcher::mpirun;
  return context == SlurmContext::step ? Launcher::srun : Launcher::none;
}

Pmi pmi_of(const VariableReader& in) {
  if (any_set(in, {"PMIX_RANK", "PMIX_NAMESPACE"})) return Pmi::pmix;
  // PMI-1 and 2 as Slurm, MPICH and Cray serve them.
  if (any_set(in, {"PMI_RANK", "PMI_FD", "PMI_PORT", "PMI_CONTROL_PORT", "PMI_UNIVERSE_SIZE"})) return Pmi::pmi;
  return Pmi::none;
}

}  // namespace

const char* name_of(SlurmContext context) noexcept {
  switch (context) {
    case SlurmContext::none: return "no job of Slurm";
    case SlurmContext::batch_shell: return "the batch shell";
    case SlurmContext::interactive_shell: return "the shell of salloc";
    case SlurmContext::interactive_step: return "the interactive step of salloc";
    case SlurmContext::extern_step: return "a login into the job";
    case SlurmContext::step: return "a step";
  }
  return "";
}

const char* name_of(Launcher launcher) noexcept {
  constexpr std::array kNames{"none", "srun", "mpirun"};
  return kNames[static_cast<std::size_t>(launcher)];
}

const char* name_of(Pmi pmi) noexcept {
  constexpr std::array kNames{"none", "PMI", "PMIx"};
  return kNames[static_cast<std::size_t>(pmi)];
}

std::string SlurmEnvironment::job_name_for_slurm() const {
  if (array_job_id && array_task_id) return fmt::format("{}_{}", array_job_id->value, array_task_id->value);
  return job_id ? fmt::format("{}", job_id->value) : "";
}

SlurmEnvironment read_slurm_environment(const Variables& variables) {
  SlurmEnvironment slurm;
  VariableReader in(variables);
  read_job(in, slurm);
  read_step(in, slurm);
  read_hardware(in, slurm);
  slurm.context = context_of(in, slurm);
  slurm.launcher = launcher_of(in, slurm.context);
  slurm.pmi = pmi_of(in);
  slurm.rows = in.take_rows();
  slurm.faults = in.take_faults();
  check_consistency(slurm);
  return slurm;
}

void require_sound(const SlurmEnvironment& slurm) {
  if (slurm.faults.empty()) return;
  std::string text;
  for (const std::string& fault : slurm.faults) text += (text.empty() ? "" : "; ") + fault;
  throw OptionError("the environment of Slurm is damaged: {} (shoal env shows all of it)", text);
}

std::string describe(const SlurmEnvironment& slurm) {
  std::string text = name_of(slurm.context);
  if (slurm.context == SlurmContext::step && slurm.step_id) text = fmt::format("step {}", slurm.step_id->value);
  if (slurm.in_job() && slurm.job_id) text += fmt::format(" of job {}", slurm.job_name_for_slurm());
  if (slurm.het_size) text += fmt::format(" (heterogeneous, {} components)", slurm.het_size->value);
  if (slurm.launcher != Launcher::none) text += fmt::format(", started by {}", name_of(slurm.launcher));
  if (slurm.launcher == Launcher::srun && slurm.procid && slurm.tasks)
    text += fmt::format(": task {} of {}", slurm.procid->value, slurm.tasks->value);
  if (slurm.launcher == Launcher::srun && slurm.node_name) text += fmt::format(" on {}", slurm.node_name->value);
  return text;
}

}  // namespace shoal::launch
