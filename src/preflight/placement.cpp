#include "preflight/placement.h"

#include <algorithm>

#include "comm/gpu_identity.h"
#include "core/error.h"
#include "launch/describe_rank.h"
#include "launch/gpu_choice.h"
#include "launch/launch_check.h"
#include "preflight/gpu_bus.h"

namespace shoal::preflight {
namespace {

constexpr const char* kActivity = "the placement of the ranks";

launch::RankPlace describe_myself(const launch::Placement& placement, const launch::SlurmEnvironment& slurm,
                                  const std::string& devices) {
  const launch::Machine machine;
  launch::RankPlace place = launch::describe_rank(placement, slurm, machine, devices != "cpu");
  const int gpus = devices == "cpu" ? 0 : visible_gpus();
  for (int device = 0; device < gpus; ++device) {
    const comm::GpuIdentity known_as = comm::gpu_identity(device);
    place.visible.push_back({known_as.pci, known_as.uuid, machine.numa_of_pci(known_as.pci)});
  }
  return place;
}

std::vector<Record> warnings_of(const launch::Placement& placement, const launch::SlurmEnvironment& slurm) {
  std::vector<Record> records;
  if (placement.local_rank == 0)
    for (const std::string& warning : launch::launch_warnings(slurm, placement))
      records.push_back({.verdict = Verdict::warn, .found = warning, .code = ExitCode::usage});
  if (records.empty()) records.push_back({.code = ExitCode::usage});
  return records;
}

}  // namespace

std::vector<Record> judge_places(std::span<launch::RankPlace> places) {
  std::vector<Record> records;
  try {
    launch::choose_gpus(places);
  } catch (const Error& error) {
    for (const launch::RankPlace& place : places)
      records.push_back({.host = place.host,
                         .rank = place.rank,
                         .verdict = Verdict::fail,
                         .found = error.what(),
                         .code = error.exit_code()});
    return records;
  }
  for (const std::string& warning : launch::placement_warnings(places))
    records.push_back({.host = places[0].host, .verdict = Verdict::warn, .found = warning, .code = ExitCode::usage});
  return records;
}

CheckResult check_placement(Context& context, const launch::Placement& placement, const launch::Variables& variables,
                            const std::string& devices, std::vector<launch::RankPlace>& places) {
  const launch::SlurmEnvironment slurm = launch::read_slurm_environment(variables);
  CheckResult check{.name = "placement", .summary = launch::describe(slurm)};
  std::string mine;
  check.records = context.gather_all(kActivity, [&] {
    mine = launch::to_text(describe_myself(placement, slurm, devices));
    return warnings_of(placement, slurm);
  });
  const std::vector<std::string> texts = context.exchange(kActivity, mine);
  // A rank that could not describe itself has failed already.
  if (std::any_of(texts.begin(), texts.end(), [](const std::string& text) { return text.empty(); })) return check;
  for (const std::string& text : texts) places.push_back(launch::parse_rank_place(text));
  const std::vector<Record> judged = judge_places(places);
  check.records.insert(check.records.end(), judged.begin(), judged.end());
  return check;
}

}  // namespace shoal::preflight
