#include "apps/env_options.h"

#include <boost/program_options/value_semantic.hpp>

#include "apps/command_line.h"
#include "core/check.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

const Verb kVerb{
    .name = "env",
    .synopsis = "shoal env [--json]\nshoal env --expand LIST | --compress HOST...",
    .summary =
        "Tells who and where this process is: every value that Shoal reads from Slurm's environment, with the "
        "variable it\ncame from, and the CPUs it may run on. In a job, `srun shoal env` shows what a rank would see. "
        "Ends with exit\ncode 2 where a variable is malformed or the values of a step contradict each other.",
    .example = "shoal env --expand 'n[08,10-12]'",
    .see = "docs/slurm_environment.md tells more."};

po::options_description described(EnvOptions& options) {
  po::options_description all("Options");
  all.add_options()                                                      //
      ("json", po::bool_switch(&options.json), "the same for programs")  //
      ("expand", po::value<std::string>()->value_name("LIST")->notifier([&options](const std::string& list) {
        options.expand = list;
      }),
       "print the hosts of a host list (n[08,10-12]), one a line")  //
      ("compress", po::value(&options.compress)->multitoken()->value_name("HOST..."),
       "print the host list of these hosts, for sbatch --exclude, say");
  return all;
}

}  // namespace

bool parse_env_options(const std::vector<std::string>& arguments, EnvOptions& options) {
  po::variables_map values;
  if (!parse_verb(kVerb, {described(options)}, arguments, values)) return false;
  const int modes = options.json + options.expand.has_value() + !options.compress.empty();
  SHOAL_CHECK(modes <= 1, OptionError, "shoal env: give one of --json, --expand and --compress");
  return true;
}

}  // namespace shoal::apps
