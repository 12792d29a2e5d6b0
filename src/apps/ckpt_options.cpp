#include "apps/ckpt_options.h"

#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <sstream>

#include "checkpoint/verify.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

constexpr const char* kPath = "path";

po::parsed_options parse(const std::vector<std::string>& arguments, const po::options_description& all, int paths) {
  po::positional_options_description positional;
  positional.add(kPath, paths);
  // An abbreviation that is unique today would not be tomorrow.
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  return po::command_line_parser(arguments).options(all).positional(positional).style(style).run();
}

void print_help(const CkptUsage& usage, const po::options_description& visible) {
  std::ostringstream text;
  text << "shoal ckpt " << usage.verb << " " << usage.synopsis << "\n\n"
       << usage.summary << "\n\n"
       << visible << "\nExample:\n  " << usage.example;
  log::print_result(text.str());
}

}  // namespace

bool parse_ckpt_options(const CkptUsage& usage, const po::options_description& options,
                        const std::vector<std::string>& arguments, po::variables_map& values) {
  po::options_description visible("Options");
  visible.add(options).add_options()("help", "show this and stop");
  po::options_description all;
  all.add(visible).add_options()(kPath, po::value<std::vector<std::string>>());
  try {
    po::store(parse(arguments, all, usage.paths), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw OptionError("shoal ckpt {}: {}; see shoal ckpt {} --help", usage.verb, error.what(), usage.verb);
  }
  if (values.count("help")) {
    print_help(usage, visible);
    return false;
  }
  const std::size_t given = values.count(kPath) ? paths_of(values).size() : 0;
  SHOAL_CHECK(given == static_cast<std::size_t>(usage.paths), OptionError,
              "shoal ckpt {}: {} path is missing: shoal ckpt {} {}", usage.verb, given == 0 ? "the" : "the second",
              usage.verb, usage.synopsis);
  return true;
}

std::string path_of(const po::variables_map& values) { return paths_of(values).front(); }

std::vector<std::string> paths_of(const po::variables_map& values) {
  return values[kPath].as<std::vector<std::string>>();
}

void add_workers_option(po::options_description& options) {
  options.add_options()("workers", po::value<int>()->default_value(checkpoint::default_workers())->value_name("N"),
                        "threads that read and compare");
}

int workers_of(const po::variables_map& values) {
  const int workers = values["workers"].as<int>();
  SHOAL_CHECK(workers >= 1, OptionError, "--workers {} is no number of threads; it is 1 or more", workers);
  return workers;
}

}  // namespace shoal::apps
