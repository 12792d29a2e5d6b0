#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "launch/number_ranges.h"
#include "launch/rank_place.h"

namespace shoal::launch {
namespace {

bool have_one_in_common(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int number) { return std::ranges::find(b, number) != b.end(); });
}

// Ranks with one trouble: they share a line, in the words of the first of them.
class Group {
 public:
  void add(const RankPlace& place) {
    ranks_.push_back(place.rank);
    if (ranks_.size() == 1) first_ = &place;
  }
  bool empty() const { return ranks_.empty(); }
  const RankPlace& first() const { return *first_; }
  std::string who() const {
    return ranks_.size() == 1 ? fmt::format("rank {} (host {})", ranks_[0], first_->host)
                              : fmt::format("ranks {} (the first on host {})", ranges_text(ranks_), first_->host);
  }

 private:
  std::vector<int> ranks_;
  const RankPlace* first_ = nullptr;
};

std::string leftover(const RankPlace& place) {
  return place.cpu_bind.empty() ? ""
                                : fmt::format(
                                      "; SLURM_CPU_BIND is {}: unset it where an outer srun left it "
                                      "behind",
                                      place.cpu_bind);
}

void warn_of_small_masks(std::span<const RankPlace> places, std::vector<std::string>& warnings) {
  Group group;
  for (const RankPlace& place : places)
    if (static_cast<int>(place.cpus.cpus.size()) < place.cpus_per_task) group.add(place);
  if (group.empty()) return;
  const RankPlace& first = group.first();
  warnings.push_back(fmt::format(
      "{} may run on {} logical CPUs ({}), but Slurm was asked for {} a task: give srun "
      "--cpus-per-task=$SLURM_CPUS_PER_TASK, which srun of Slurm 22.05 to 23.02 does not take over from sbatch{}",
      group.who(), first.cpus.cpus.size(), ranges_text(first.cpus.cpus), first.cpus_per_task, leftover(first)));
}

// The ranks of a node share what their masks hold together. That may be less than a CPU for each, or than each was to
// have, though the node has more.
void warn_of_crowds(std::span<const RankPlace> places, std::vector<std::string>& warnings) {
  std::map<int, std::set<int>> cpus;
  std::map<int, int> wanted;
  for (const RankPlace& place : places) {
    cpus[place.node].insert(place.cpus.cpus.begin(), place.cpus.cpus.end());
    wanted[place.node] += std::max(1, place.cpus_per_task);
  }
  Group group;
  for (const RankPlace& place : places) {
    const int shared = static_cast<int>(cpus[place.node].size());
    const bool has_enough = static_cast<int>(place.cpus.cpus.size()) >= place.cpus_per_task;  // else told already
    if (place.local_size > 1 && has_enough && shared < std::min(wanted[place.node], place.cpus.machine_cpus))
      group.add(place);
  }
  if (group.empty()) return;
  const RankPlace& first = group.first();
  const std::set<int>& shared = cpus[first.node];
  warnings.push_back(fmt::format(
      "{} share {} of their node's {} logical CPUs ({}) among {} ranks, which need {}: they wait for each other; start "
      "them by srun --cpus-per-task=N --cpu-bind=cores, or mpirun --bind-to none{}",
      group.who(), shared.size(), first.cpus.machine_cpus, ranges_text({shared.begin(), shared.end()}),
      first.local_size, wanted[first.node], leftover(first)));
}

void warn_of_far_gpus(std::span<const RankPlace> places, std::vector<std::string>& warnings) {
  Group group;
  for (const RankPlace& place : places) {
    if (place.gpu < 0) continue;
    const std::vector<int>& of_gpu = place.visible[static_cast<std::size_t>(place.gpu)].numa;
    if (!of_gpu.empty() && !place.cpus.numa.empty() && !have_one_in_common(of_gpu, place.cpus.numa)) group.add(place);
  }
  if (group.empty()) return;
  const RankPlace& first = group.first();
  warnings.push_back(fmt::format(
      "{} may run next to memory {} alone, but computes on a GPU next to memory {}, which costs bandwidth: give srun "
      "--gpu-bind=closest, or the CPUs of that node of memory by --cpu-bind",
      group.who(), ranges_text(first.cpus.numa), ranges_text(first.visible[static_cast<std::size_t>(first.gpu)].numa)));
}

void warn_of_unseen_gpus(std::span<const RankPlace> places, std::vector<std::string>& warnings) {
  Group group;
  for (const RankPlace& place : places)
    if (place.gpus_of_slurm > 0 && place.visible.empty()) group.add(place);
  if (group.empty()) return;
  warnings.push_back(
      fmt::format("{} compute on the CPU, though Slurm gave this node {} GPUs (SLURM_GPUS_ON_NODE): the driver or this "
                  "build cannot "
                  "use them; --device cuda makes that an error, --device cpu says that it is meant",
                  group.who(), group.first().gpus_of_slurm));
}

}  // namespace

std::vector<std::string> placement_warnings(std::span<const RankPlace> places) {
  std::vector<std::string> warnings;
  warn_of_small_masks(places, warnings);
  warn_of_crowds(places, warnings);
  warn_of_far_gpus(places, warnings);
  warn_of_unseen_gpus(places, warnings);
  return warnings;
}

}  // namespace shoal::launch
