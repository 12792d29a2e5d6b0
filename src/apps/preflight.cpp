// shoal-preflight: is this allocation fit for a job? Needs no LibTorch, so it starts at once on every node.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string_view>
#include <thread>

#include "apps/command_line.h"
#include "apps/preflight_options.h"
#include "comm/late_ranks.h"
#include "core/file_io.h"
#include "core/logging.h"
#include "launch/mpi_session.h"
#include "launch/variables.h"
#include "preflight/clocks.h"
#include "preflight/context.h"
#include "preflight/environment.h"
#include "preflight/filesystem.h"
#include "preflight/gpu_bus.h"
#include "preflight/gpus.h"
#include "preflight/limits.h"
#include "preflight/links.h"
#include "preflight/placement.h"
#include "preflight/report.h"

extern char** environ;

namespace shoal::apps {
namespace {

using namespace preflight;

constexpr double kGiB = 1 << 30;

void add(Report& report, std::vector<CheckResult> checks) {
  for (CheckResult& check : checks) report.checks.push_back(std::move(check));
}

void check_directories(Context& context, const PreflightOptions& options, Report& report) {
  if (options.checkpoint_dir.empty()) {
    report.checks.push_back({"fs", "give --checkpoint-dir DIR to try out its file system", {}});
  } else {
    add(report, check_filesystem(context, {.directory = options.checkpoint_dir,
                                           .prefix = "fs",
                                           .bytes = options.size_mib << 20,
                                           .checkpoint_bytes = options.checkpoint_gib * kGiB,
                                           .checkpoints = options.keep + 1}));
  }
  if (!options.run_dir.empty()) add(report, check_filesystem(context, {.directory = options.run_dir, .prefix = "run"}));
}

void check_devices(Context& context, const PreflightOptions& options, int device, Report& report) {
  if (options.device == "cpu") {
    report.checks.push_back({"gpu", "--device cpu", {}});
    return;
  }
  // First what takes no memory of the GPUs: others' memory is seen as theirs.
  report.checks.push_back(check_gpus(context));
  add(report, check_gpu_bus(context, device, options.device == "cuda"));
}

// In the order of the time they take, so that the quick ones are there when a slow one hangs.
void run_checks(Context& context, const launch::Placement& placement, const PreflightOptions& options, Report& report) {
  const launch::Variables variables = launch::read_environment(environ);
  std::vector<launch::RankPlace> places;
  report.checks.push_back(check_placement(context, placement, variables, options.device, places));
  for (const std::string& line : launch::placement_table(places)) log::info("{}", line);
  report.checks.push_back(check_environment(context, variables));
  const double file_bytes = options.checkpoint_gib * kGiB / context.size();
  add(report, check_limits(context, static_cast<std::uint64_t>(file_bytes)));
  report.checks.push_back(judge_clocks(read_clocks(context)));
  const LinkTable links = measure_links(context);
  report.checks.push_back(judge_latency(links));
  report.checks.push_back(judge_bandwidth(links));
  check_directories(context, options, report);
  const int device = places.empty() ? -1 : places[static_cast<std::size_t>(context.rank())].gpu;
  check_devices(context, options, device, report);
}

void publish(const PreflightOptions& options, const Report& report) {
  fmt::print("{}\n", table_of(report));
  std::fflush(stdout);
  if (!options.json.empty()) replace_text_file(options.json, json_of(report));
}

// Why --json could not be written; "" where all is well.
std::string publish_or_say(const PreflightOptions& options, const Report& report) {
  try {
    publish(options, report);
    return "";
  } catch (const Error& error) {
    log::error("--json {}: {}", options.json.string(), error.what());
    return error.what();
  }
}

// Who did not come, as one more check.
CheckResult missing(const Context& context, const comm::LateRanksError& error) {
  CheckResult check{.name = "ranks", .summary = error.what(), .records = {}};
  for (int rank = 0; rank < context.size(); ++rank)
    check.records.push_back({.host = context.host_of(rank), .rank = rank});
  for (const int rank : error.ranks()) {
    Record& record = check.records[static_cast<std::size_t>(rank)];
    record.verdict = Verdict::fail;
    record.found = "did not come in time";
    record.advice = "it ended, or hangs; --timeout gives it longer";
    record.code = ExitCode::communication;
  }
  return check;
}

// The lowest rank that is there speaks for all; the others leave it the time to do so.
[[noreturn]] void end_without(const Context& context, const comm::LateRanksError& error,
                              const PreflightOptions& options, Report& report) {
  int speaker = 0;
  for (const int late : error.ranks()) speaker += late == speaker ? 1 : 0;
  if (context.rank() != speaker) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
  } else {
    report.checks.push_back(missing(context, error));
    report.seconds = context.seconds();
    publish_or_say(options, report);
  }
  launch::abort_job(ExitCode::communication);
}

// The same on all ranks: what was found, or that rank 0 could not write it down.
ExitCode publish_agreed(Context& context, const PreflightOptions& options, const Report& report) {
  const std::string problem = context.rank() == 0 ? publish_or_say(options, report) : "";
  const ExitCode found = exit_code_of(report);
  const bool written = context.exchange("the end", problem)[0].empty();
  return found == ExitCode::ok && !written ? ExitCode::io : found;
}

ExitCode check(const launch::Placement& placement, const PreflightOptions& options) {
  constexpr std::chrono::seconds kGrace{5};
  Guard guard(options.timeout + kGrace);
  Context context(placement, guard, options.timeout);
  Report report{.hosts = context.hosts()};
  try {
    run_checks(context, placement, options, report);
    report.seconds = context.seconds();
    return publish_agreed(context, options, report);
  } catch (const comm::LateRanksError& error) {
    end_without(context, error, options, report);
  }
}

ExitCode run(const launch::Placement& placement, const std::vector<std::string>& arguments) {
  std::optional<PreflightOptions> options;
  try {
    options = parse_preflight_options(arguments);
  } catch (const OptionError& error) {  // the same on all ranks
    if (placement.rank == 0) log::error("{}", error.what());
    return error.exit_code();
  }
  if (options) return check(placement, *options);
  log::print_result(preflight_help());
  return ExitCode::ok;
}

}  // namespace
}  // namespace shoal::apps

int main(int argc, char** argv) {
  using namespace shoal;
  if (argc == 2 && std::string_view(argv[1]) == apps::kDescribe) {  // the driver asks, outside of any job
    log::print_result(apps::preflight_description());
    return 0;
  }
  try {
    const launch::MpiSession session(&argc, &argv);
    return static_cast<int>(apps::run(session.placement(), {argv + 1, argv + argc}));
  } catch (const Error& error) {
    log::error("{}", error.what());
    launch::abort_job(error.exit_code());
  } catch (const std::exception& error) {
    log::error("{}", error.what());
    launch::abort_job(ExitCode::internal);
  }
}
