#include "apps/ckpt_options.h"

#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <sstream>

#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

constexpr const char* kPath = "path";

po::parsed_options parse(const std::vector<std::string>& arguments, const po::options_description& all) {
  po::positional_options_description positional;
  positional.add(kPath, 1);
  // An abbreviation that is unique today would not be tomorrow.
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  return po::command_line_parser(arguments).options(all).positional(positional).style(style).run();
}

void print_help(const CkptUsage& usage, const po::options_description& visible) {
  std::ostringstream text;
  text << "shoal ckpt " << usage.verb << " " << usage.synopsis << "\n\n" << usage.summary << "\n\n" << visible;
  log::print_result(text.str());
}

}  // namespace

bool parse_ckpt_options(const CkptUsage& usage, const po::options_description& options,
                        const std::vector<std::string>& arguments, po::variables_map& values) {
  po::options_description visible("Options");
  visible.add(options).add_options()("help", "show this and stop");
  po::options_description all;
  all.add(visible).add_options()(kPath, po::value<std::string>());
  try {
    po::store(parse(arguments, all), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw OptionError("shoal ckpt {}: {}; see shoal ckpt {} --help", usage.verb, error.what(), usage.verb);
  }
  if (values.count("help")) {
    print_help(usage, visible);
    return false;
  }
  SHOAL_CHECK(values.count(kPath), OptionError, "shoal ckpt {}: the path is missing: shoal ckpt {} {}", usage.verb,
              usage.verb, usage.synopsis);
  return true;
}

std::string path_of(const po::variables_map& values) { return values[kPath].as<std::string>(); }

}  // namespace shoal::apps
