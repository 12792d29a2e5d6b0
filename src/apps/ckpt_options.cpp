#include "apps/ckpt_options.h"

#include <boost/program_options/value_semantic.hpp>

#include "checkpoint/verify.h"
#include "core/check.h"

namespace shoal::apps {
namespace po = boost::program_options;

bool parse_ckpt_options(const CkptUsage& usage, const po::options_description& options,
                        const std::vector<std::string>& arguments, po::variables_map& values) {
  po::options_description visible("Options");
  visible.add(options);
  const Verb verb{.name = "ckpt " + usage.verb,
                  .synopsis = "shoal ckpt " + usage.verb + " " + usage.synopsis,
                  .summary = usage.summary,
                  .example = usage.example,
                  .see = "",
                  .paths = usage.paths};
  if (!parse_verb(verb, {visible}, arguments, values)) return false;
  const std::size_t given = paths_of(values).size();
  SHOAL_CHECK(given == static_cast<std::size_t>(usage.paths), OptionError,
              "shoal ckpt {}: {} path is missing: shoal ckpt {} {}", usage.verb, given == 0 ? "the" : "the second",
              usage.verb, usage.synopsis);
  return true;
}

std::string path_of(const po::variables_map& values) { return paths_of(values).front(); }

void add_workers_option(po::options_description& options) {
  options.add_options()(
      "workers", po::value<int>()->default_value(checkpoint::default_workers(), "one a core, up to 4")->value_name("N"),
      "threads that read and compare");
}

int workers_of(const po::variables_map& values) {
  const int workers = values["workers"].as<int>();
  SHOAL_CHECK(workers >= 1, OptionError, "--workers {} is no number of threads; it is 1 or more", workers);
  return workers;
}

}  // namespace shoal::apps
