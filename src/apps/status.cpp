// shoal-status: how a run is getting on. Reads the run directory alone: no Slurm, no MPI, no LibTorch.
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <sstream>

#include "apps/run_program.h"
#include "apps/status_text.h"
#include "core/check.h"
#include "launch/deadline.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "shoal status RUN_DIR [--json] [--stale-after S]\n\n"
    "Tells how a run is getting on: state, step, rate, last checkpoint, its attempts and who failed first. RUN_DIR is\n"
    "the job's --run-dir, or its --checkpoint-dir where that is the default. docs/running.md explains the states.\n";

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
       "seconds without a word after which a run is stale (120, or ten steps)")  //
      ("help", "show this and stop");
  return visible;
}

// False where the help was asked for.
bool parse(const std::vector<std::string>& arguments, StatusOptions& options) {
  const po::options_description visible = visible_options(options);
  po::options_description all;
  all.add(visible).add_options()("path", po::value(&options.path));
  po::positional_options_description positional;
  positional.add("path", 1);
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw OptionError("shoal status: {}; see shoal status --help", error.what());
  }
  if (values.count("help")) {
    std::ostringstream text;
    text << kUsage << "\n" << visible;
    log::print_result(text.str());
    return false;
  }
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
