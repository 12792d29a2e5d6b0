#include "apps/command_line.h"

#include <algorithm>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/logging.h"
#include "core/nearest.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPath = "path";

// The library shows a group's title, but does not tell it.
std::string title_of(const po::options_description& group) {
  std::ostringstream text;
  text << group;
  return text.str().substr(0, text.str().find(":\n"));
}

Json described(const po::option_description& option) {
  const auto semantic = option.semantic();
  return {{"name", option.long_name()},
          {"value", semantic->max_tokens() == 0 ? "" : semantic->name()},
          {"text", option.description()}};
}

std::vector<std::string> names_of(const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back(option->long_name());
  return names;
}

po::options_description together(const OptionGroups& groups) {
  po::options_description all;
  for (const po::options_description& group : groups) all.add(group);
  return all;
}

}  // namespace

std::string help_text(const Verb& verb, const OptionGroups& groups) {
  std::ostringstream text;
  text << verb.synopsis << "\n\n" << verb.summary << "\n";
  for (const po::options_description& group : groups) text << "\n" << group;
  text << "\nExample:\n  " << verb.example;
  if (!verb.see.empty()) text << "\n\n" << verb.see;
  return text.str();
}

std::string description_of(const Verb& verb, const OptionGroups& groups) {
  Json all{{"verb", verb.name},       {"synopsis", verb.synopsis}, {"summary", verb.summary},
           {"example", verb.example}, {"see", verb.see},           {"groups", Json::array()}};
  for (const po::options_description& group : groups) {
    Json options = Json::array();
    for (const auto& option : group.options()) options.push_back(described(*option));
    all["groups"].push_back({{"title", title_of(group)}, {"options", options}});
  }
  return all.dump();
}

std::string explain(const po::error& error, const po::options_description& known, const std::string& verb) {
  const std::string see = fmt::format("; see shoal {} --help", verb);
  const auto* unknown = dynamic_cast<const po::unknown_option*>(&error);
  if (unknown == nullptr) return error.what() + see;
  std::string name = unknown->get_option_name();
  const bool dashes = name.starts_with("--");
  name.erase(0, name.find_first_not_of('-'));
  return error.what() + did_you_mean(name, names_of(known), see, dashes ? "--" : "");
}

void store_arguments(const std::vector<std::string>& arguments, const po::options_description& options, int paths,
                     po::variables_map& values) {
  po::options_description all;
  all.add(options).add_options()(kPath, po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  if (paths != 0) positional.add(kPath, paths);
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(), values);
}

bool parse_verb(const Verb& verb, OptionGroups groups, const std::vector<std::string>& arguments,
                po::variables_map& values) {
  groups.back().add_options()("help", "show this and stop");
  if (arguments == std::vector<std::string>{kDescribe}) {
    log::print_result(description_of(verb, groups));
    return false;
  }
  const po::options_description all = together(groups);
  try {
    store_arguments(arguments, all, verb.paths, values);
    po::notify(values);
  } catch (const po::error& error) {
    throw OptionError("shoal {}: {}", verb.name, explain(error, all, verb.name));
  }
  if (!values.count("help")) return true;
  log::print_result(help_text(verb, groups));
  return false;
}

std::vector<std::string> paths_of(const po::variables_map& values) {
  return values.count(kPath) ? values[kPath].as<std::vector<std::string>>() : std::vector<std::string>();
}

}  // namespace shoal::apps
