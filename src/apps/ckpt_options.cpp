#include "apps/ckpt_options.h"

#include <array>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

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

void add_workers_option(po::options_description& options, const char* what, int workers) {
  options.add_options()("workers", po::value<int>()->default_value(workers)->value_name("N"), what);
}

int workers_of(const po::variables_map& values) {
  const int workers = values["workers"].as<int>();
  SHOAL_CHECK(workers >= 1, OptionError, "--workers {} is no number of threads; it is 1 or more", workers);
  return workers;
}

std::int64_t bytes_from(const std::string& option, const std::string& text) {
  constexpr std::array<std::pair<std::string_view, double>, 10> kUnits{{{"", 1},
                                                                        {"B", 1},
                                                                        {"KB", 1e3},
                                                                        {"MB", 1e6},
                                                                        {"GB", 1e9},
                                                                        {"TB", 1e12},
                                                                        {"KiB", 0x1p10},
                                                                        {"MiB", 0x1p20},
                                                                        {"GiB", 0x1p30},
                                                                        {"TiB", 0x1p40}}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [name, factor] : kUnits)
    if (error == std::errc{} && unit == name && number * factor >= 1 && number * factor < 0x1p62)
      return static_cast<std::int64_t>(number * factor);
  throw OptionError("--{} {} is no size; give one like 5GB or 512MiB", option, text);
}

}  // namespace shoal::apps
