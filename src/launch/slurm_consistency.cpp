#include "launch/slurm_consistency.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "launch/slurm_environment.h"

namespace shoal::launch {
namespace {

bool is_of_step(const std::string& variable) { return variable.starts_with("SLURM_STEP_"); }

// Two values are compared where both speak of the step or both of the job.
template <typename A, typename B>
bool comparable(const Maybe<A>& a, const Maybe<B>& b) {
  return a && b && is_of_step(a->variable) == is_of_step(b->variable);
}

class Findings {
 public:
  explicit Findings(SlurmEnvironment& slurm) : slurm_(slurm) {}
  void add(const std::string& variable, std::string text) {
    (is_of_step(variable) ? slurm_.faults : slurm_.notes).push_back(std::move(text));
  }
  void fault(std::string text) { slurm_.faults.push_back(std::move(text)); }

 private:
  SlurmEnvironment& slurm_;
};

void compare_counts(const SlurmEnvironment& slurm, Findings& found) {
  const auto& [tasks, nodes, hosts, counts] = std::tie(slurm.tasks, slurm.nodes, slurm.hosts, slurm.tasks_per_node);
  if (comparable(tasks, counts)) {
    const std::int64_t sum = std::accumulate(counts->value.begin(), counts->value.end(), std::int64_t{0});
    if (sum != tasks->value)
      found.add(tasks->variable, fmt::format("{} is {}, but the numbers in {} add up to {}", tasks->variable,
                                             tasks->value, counts->variable, sum));
  }
  const auto compare_size = [&](const auto& list, std::size_t size) {
    if (static_cast<std::int64_t>(size) != nodes->value)
      found.add(nodes->variable,
                fmt::format("{} is {}, but {} is for {} nodes", nodes->variable, nodes->value, list->variable, size));
  };
  if (comparable(nodes, hosts)) compare_size(hosts, hosts->value.size());
  if (comparable(nodes, counts)) compare_size(counts, counts->value.size());
}

void compare_ids(const SlurmEnvironment& slurm, Findings& found) {
  const auto below = [&](const Maybe<std::int64_t>& id, std::int64_t limit, const std::string& of) {
    if (id && id->value >= limit)
      found.fault(fmt::format("{} is {}, but {} gives only {}", id->variable, id->value, of, limit));
  };
  if (slurm.tasks) below(slurm.procid, slurm.tasks->value, slurm.tasks->variable);
  if (slurm.nodes) below(slurm.nodeid, slurm.nodes->value, slurm.nodes->variable);
  const auto& counts = slurm.tasks_per_node;
  if (!counts || !slurm.nodeid || slurm.nodeid->value >= static_cast<std::int64_t>(counts->value.size())) return;
  const int here = counts->value[static_cast<std::size_t>(slurm.nodeid->value)];
  const std::string of = fmt::format("{} of node {}", counts->variable, slurm.nodeid->value);
  below(slurm.localid, here, of);
  // Components of a heterogeneous step may share a node, and then each has a list of its own.
  if (!slurm.het_size && slurm.tasks_here && static_cast<int>(slurm.tasks_here->value.size()) != here)
    found.fault(fmt::format("{} names {} tasks, but {} gives {}", slurm.tasks_here->variable,
                            slurm.tasks_here->value.size(), of, here));
}

void look_for_gaps(const SlurmEnvironment& slurm, Findings& found) {
  if (slurm.array_job_id.has_value() != slurm.array_task_id.has_value())
    found.fault("of SLURM_ARRAY_JOB_ID and SLURM_ARRAY_TASK_ID only one is set: a task of an array has both");
  if (slurm.context != SlurmContext::step) return;
  if (!slurm.step_id)
    found.fault(
        "SLURM_STEP_ID is not set, though srun started this process: something removed it, and MPI would take "
        "each rank for a job of its own");
  if (!slurm.procid) found.fault("SLURM_PROCID is not set, though srun started this process: something removed it");
  if (!slurm.tasks)
    found.fault("none of SLURM_STEP_NUM_TASKS, SLURM_NTASKS and SLURM_NPROCS tells how many tasks the step has");
}

}  // namespace

void check_consistency(SlurmEnvironment& slurm) {
  const bool was_sound = slurm.faults.empty();
  Findings found(slurm);
  compare_counts(slurm, found);
  if (slurm.context == SlurmContext::step) compare_ids(slurm, found);
  if (was_sound) look_for_gaps(slurm, found);
}

}  // namespace shoal::launch
