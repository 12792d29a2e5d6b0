// shoal-report: how runs went, as one file of HTML. Reads run directories alone: no Slurm, no MPI, no LibTorch.
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <sstream>

#include "apps/run_program.h"
#include "core/check.h"
#include "core/file_io.h"
#include "report/page.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "shoal report RUN_DIR... [--output FILE.html]\n\n"
    "Makes one file of HTML with plots of loss, rate, memory, where the time of a step goes and checkpoints; of "
    "several\n"
    "runs, beside each other. RUN_DIR is a job's --run-dir, or its --checkpoint-dir where that is the default. The "
    "file\n"
    "needs no network. docs/metrics.md tells what the numbers are.\n\n"
    "Example: shoal report checkpoints/gpt2-124m --output gpt2.html\n";

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output = "report.html";
};

// False where the help was asked for.
bool parse(const std::vector<std::string>& arguments, ReportOptions& options) {
  po::options_description visible("Options");
  visible.add_options()                                                                                         //
      ("output", po::value(&options.output)->value_name("FILE"), "the file to write or replace (report.html)")  //
      ("help", "show this and stop");
  po::options_description all;
  all.add(visible).add_options()("run", po::value(&options.runs));
  po::positional_options_description positional;
  positional.add("run", -1);
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw OptionError("shoal report: {}; see shoal report --help", error.what());
  }
  if (values.count("help")) {
    std::ostringstream text;
    text << kUsage << "\n" << visible;
    log::print_result(text.str());
    return false;
  }
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
