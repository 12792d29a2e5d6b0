#include "apps/train_placement.h"

#include <algorithm>
#include <vector>

#include "apps/train_dry_run.h"
#include "core/check.h"
#include "core/file_io.h"
#include "core/logging.h"
#include "launch/describe_rank.h"
#include "launch/first_failure.h"
#include "launch/gpu_choice.h"
#include "launch/launch_check.h"
#include "launch/rank_place.h"
#include "train/agreement.h"
#include "train/device.h"

extern char** environ;

namespace shoal::apps {
namespace {

launch::RankPlace describe_myself(const launch::Placement& placement, const launch::SlurmEnvironment& slurm,
                                  const std::string& wanted) {
  const launch::Machine machine;
  launch::RankPlace place = launch::describe_rank(placement, slurm, machine, wanted != "cpu");
  place.visible = train::visible_gpus(wanted, machine);
  return place;
}

void check_kinds(const std::vector<launch::RankPlace>& places, const std::string& wanted) {
  const auto kind = [](const launch::RankPlace& place) { return place.visible.empty() ? "no GPU" : "a GPU"; };
  const auto other = std::ranges::find_if(
      places, [&](const auto& place) { return place.visible.empty() != places[0].visible.empty(); });
  if (other == places.end()) return;
  throw DeviceError(
      "--device {}: rank {} on host {} has {}, but rank 0 on host {} has {}: ask srun for GPUs on every "
      "node (--gpus-per-node, --gpus-per-task), or use --device cpu",
      wanted, other->rank, other->host, kind(*other), places[0].host, kind(places[0]));
}

void show(const std::vector<launch::RankPlace>& places, const launch::Placement& placement,
          const launch::SlurmEnvironment& slurm, bool dry_run) {
  if (placement.local_rank == 0)
    for (const std::string& warning : launch_warnings(slurm, placement)) log::warning("{}", warning);
  if (placement.rank != 0) return;
  log::info("this is {}", describe(slurm));
  // What a dry run is asked for goes to standard output.
  for (const std::string& line : placement_table(places)) dry_run ? print_comment(line) : log::info("{}", line);
  for (const std::string& warning : placement_warnings(places)) log::warning("{}", warning);
}

}  // namespace

at::Device place_ranks(comm::ProcessGroup& world, const launch::Placement& placement, const train::RunOptions& options,
                       const std::optional<launch::RunAttempt>& attempt) {
  const launch::SlurmEnvironment slurm = launch::read_slurm_environment(launch::read_environment(environ));
  const auto texts =
      train::run_everywhere(world, [&] { return launch::to_text(describe_myself(placement, slurm, options.device)); });
  std::vector<launch::RankPlace> places;
  for (const std::string& text : texts) places.push_back(launch::parse_rank_place(text));
  train::run_agreeing([&] {
    check_kinds(places, options.device);
    launch::choose_gpus(places);
  });
  show(places, placement, slurm, options.dry_run);
  train::run_everywhere(world, [&]() -> std::string {
    if (placement.rank == 0 && attempt)
      replace_text_file(attempt->directory.placement(attempt->number),
                        launch::placement_json(places, slurm.job_name_for_slurm()));
    return "";
  });
  const launch::RankPlace& mine = places[static_cast<std::size_t>(placement.rank)];
  if (mine.gpu >= 0) launch::name_gpu_of_failures(mine.visible[static_cast<std::size_t>(mine.gpu)].pci);
  const at::Device device = train::device_of(mine);
  if (options.deterministic && device.is_cuda() && world.size() > 2)
    log::warning("--deterministic: NCCL adds in an order of its own, so that {} GPUs do not give the bits of one",
                 world.size());
  return device;
}

}  // namespace shoal::apps
