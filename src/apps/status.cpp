// shoal-status: how a run is getting on. Reads the run directory alone: no Slurm, no MPI, no LibTorch.
#include <boost/program_options/value_semantic.hpp>

#include "apps/command_line.h"
#include "apps/run_program.h"
#include "apps/status_text.h"
#include "core/check.h"
#include "launch/deadline.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;

const Verb kVerb{
    .name = "status",
    .synopsis = "shoal status RUN_DIR [--json] [--stale-after S]",
    .summary =
        "Tells how a run is getting on: state, step, rate, last checkpoint, its attempts and who failed first. "
        "RUN_DIR is\nthe job's --run-dir, or its --checkpoint-dir where that is the default.",
    .example = "shoal status checkpoints/mnist-net",
    .see = "docs/running.md explains the states.",
    .paths = 1};

struct StatusOptions {
  std::string path;
  bool json = false;
  std::optional<double> stale_after;
};

po::options_description visible_options(StatusOptions& options) {
  po::options_description visible("Options");
  visible.add_options()                                                  //
      ("json", po::bool_switch(&options.json), "the same for programs")  //
      ("stale-after", po::value<double>()->value_name("S")->notifier([&options](double s) { options.stale_after = s; }),
       "seconds without a word after which a run is stale (120, or ten steps)");
  return visible;
}

// False where the help was asked for.
bool parse(const std::vector<std::string>& arguments, StatusOptions& options) {
  po::variables_map values;
  if (!parse_verb(kVerb, {visible_options(options)}, arguments, values)) return false;
  if (const auto paths = paths_of(values); !paths.empty()) options.path = paths.front();
  SHOAL_CHECK(!options.path.empty(), OptionError, "shoal status: the run directory is missing: shoal status RUN_DIR");
  return true;
}

ExitCode run(const std::vector<std::string>& arguments) {
  StatusOptions options;
  if (!parse(arguments, options)) return ExitCode::ok;
  const double now = launch::unix_now();
  const launch::RunOverview run = launch::look_at_run(options.path, {.now = now, .stale_after = options.stale_after});
  log::print_result(options.json ? status_json(run) : status_text(run, now));
  return ExitCode::ok;
}

}  // namespace
}  // namespace shoal::apps

int main(int argc, char** argv) {
  return static_cast<int>(shoal::apps::run_program([&] { return shoal::apps::run({argv + 1, argv + argc}); }));
}
