#include "apps/env_options.h"

#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <sstream>

#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

constexpr const char* kUsage =
    "shoal env [--json]\n"
    "shoal env --expand LIST | --compress HOST...\n\n"
    "Tells who and where this process is: every value that Shoal reads from Slurm's environment, with the variable it\n"
    "came from, and the CPUs it may run on. In a job, `srun shoal env` shows what a rank would see. Ends with exit\n"
    "code 2 where a variable is malformed or the values of a step contradict each other.\n";

po::options_description described(EnvOptions& options) {
  po::options_description all("Options");
  all.add_options()                                                      //
      ("json", po::bool_switch(&options.json), "the same for programs")  //
      ("expand", po::value<std::string>()->value_name("LIST")->notifier([&options](const std::string& list) {
        options.expand = list;
      }),
       "print the hosts of a host list (n[08,10-12]), one a line")  //
      ("compress", po::value(&options.compress)->multitoken()->value_name("HOST..."),
       "print the host list of these hosts, for sbatch --exclude, say")  //
      ("help", "show this and stop");
  return all;
}

}  // namespace

bool parse_env_options(const std::vector<std::string>& arguments, EnvOptions& options) {
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  const auto all = described(options);
  try {
    const po::positional_options_description none;
    po::store(po::command_line_parser(arguments).options(all).positional(none).style(style).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw OptionError("shoal env: {}; see shoal env --help", error.what());
  }
  if (values.count("help")) {
    std::ostringstream text;
    text << kUsage << "\n" << all;
    log::print_result(text.str());
    return false;
  }
  const int modes = options.json + options.expand.has_value() + !options.compress.empty();
  SHOAL_CHECK(modes <= 1, OptionError, "shoal env: give one of --json, --expand and --compress");
  return true;
}

}  // namespace shoal::apps
