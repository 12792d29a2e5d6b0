// shoal-report: how runs went, as one file of HTML. Reads run directories alone: no Slurm, no MPI, no LibTorch.
#include <boost/program_options/value_semantic.hpp>

#include "apps/command_line.h"
#include "apps/run_program.h"
#include "core/check.h"
#include "core/file_io.h"
#include "report/page.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;

const Verb kVerb{
    .name = "report",
    .synopsis = "shoal report RUN_DIR... [--output FILE.html]",
    .summary =
        "Makes one file of HTML with plots of loss, rate, memory, where the time of a step goes and checkpoints; of "
        "several\nruns, beside each other. RUN_DIR is a job's --run-dir, or its --checkpoint-dir where that is the "
        "default. The file\nneeds no network.",
    .example = "shoal report checkpoints/gpt2-124m --output gpt2.html",
    .see = "docs/metrics.md tells what the numbers are.",
    .paths = -1};

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output = "report.html";
};

// False where the help was asked for.
bool parse(const std::vector<std::string>& arguments, ReportOptions& options) {
  po::options_description visible("Options");
  visible.add_options()("output", po::value(&options.output)->value_name("FILE"),
                        "the file to write or replace (report.html)");
  po::variables_map values;
  if (!parse_verb(kVerb, {visible}, arguments, values)) return false;
  options.runs = paths_of(values);
  SHOAL_CHECK(!options.runs.empty(), OptionError, "shoal report: a run directory is missing: shoal report RUN_DIR...");
  return true;
}

ExitCode run(const std::vector<std::string>& arguments) {
  ReportOptions options;
  if (!parse(arguments, options)) return ExitCode::ok;
  const auto runs = report::load_runs({options.runs.begin(), options.runs.end()});
  replace_text_file(options.output, report::page(runs), /*synced=*/false);
  log::result("wrote {} ({} {})", options.output, runs.size(), runs.size() == 1 ? "run" : "runs");
  return ExitCode::ok;
}

}  // namespace
}  // namespace shoal::apps

int main(int argc, char** argv) {
  return static_cast<int>(shoal::apps::run_program([&] { return shoal::apps::run({argv + 1, argv + argc}); }));
}
