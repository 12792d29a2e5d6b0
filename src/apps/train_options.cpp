#include "apps/train_options.h"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cctype>
#include <fstream>
#include <sstream>
#include <string_view>

#include "apps/train_option_groups.h"
#include "core/check.h"
#include "models/plugin.h"
#include "models/script_model.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;
using train::TrainOptions;

// Not options, yet they may stand in the environment.
bool is_foreign(std::string_view variable) {
  constexpr std::array<std::string_view, 5> kNames{"SHOAL_CACHE", "SHOAL_ROOT", "SHOAL_SANDBOX_DIR", "SHOAL_SLURM_DIR",
                                                   "SHOAL_VERSION"};
  return variable.starts_with("SHOAL_TEST_") || std::find(kNames.begin(), kNames.end(), variable) != kNames.end();
}

// "SHOAL_BATCH_SIZE" -> "batch-size"; "" for what is not ours.
std::string option_of(const std::string& variable, const po::options_description& options) {
  constexpr std::string_view kPrefix = "SHOAL_";
  if (!variable.starts_with(kPrefix) || is_foreign(variable)) return "";
  std::string name = variable.substr(kPrefix.size());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  SHOAL_CHECK(options.find_nothrow(name, false) != nullptr, OptionError,
              "the environment variable {} belongs to no option of shoal train: unset it, or see shoal train --help",
              variable);
  return name;
}

// Library errors with the place that they come from in front.
template <typename Body>
void from(const std::string& where, const Body& body) {
  try {
    body();
  } catch (const po::error& error) {
    throw OptionError("{}{}; see shoal train --help", where, error.what());
  }
}

void store_command_line(const std::vector<std::string>& arguments, const po::options_description& options,
                        po::variables_map& values) {
  // An abbreviation that is unique today would not be tomorrow.
  constexpr int kStyle = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  const po::parsed_options parsed = po::command_line_parser(arguments).options(options).style(kStyle).run();
  for (const po::option& option : parsed.options)
    SHOAL_CHECK(!option.string_key.empty(), OptionError, "'{}' is no option; see shoal train --help",
                option.original_tokens.front());
  po::store(parsed, values);
}

void store_variable(const std::string& entry, const po::options_description& options, po::variables_map& values) {
  const std::size_t equals = std::min(entry.find('='), entry.size());
  const std::string name = option_of(entry.substr(0, equals), options);
  if (name.empty()) return;
  po::parsed_options parsed(&options);
  parsed.options.emplace_back(name, std::vector<std::string>{entry.substr(std::min(equals + 1, entry.size()))});
  from("environment variable " + entry.substr(0, equals) + ": ", [&] { po::store(parsed, values); });
}

void store_file(const std::string& file, const po::options_description& options, po::variables_map& values) {
  std::ifstream stream(file);
  SHOAL_CHECK(stream, OptionError, "--config {}: the file cannot be read", file);
  from("--config " + file + ": ", [&] { po::store(po::parse_config_file(stream, options), values); });
}

// Whoever stores a value first wins.
void store_all(const std::vector<std::string>& arguments, const char* const* environment,
               const po::options_description& options, po::variables_map& values) {
  from("", [&] { store_command_line(arguments, options, values); });
  for (; *environment != nullptr; ++environment) store_variable(*environment, options, values);
  if (values.count("config") > 0) store_file(values["config"].as<std::string>(), options, values);
}

std::string text_of(const po::variables_map& values, const char* option) {
  return values.count(option) > 0 ? values[option].as<std::string>() : "";
}

// Of the registry, to which --model-plugin and --model-script add first.
std::string model_name(const po::variables_map& values) {
  const std::string name = text_of(values, "model"), script = text_of(values, "model-script"),
                    plugin = text_of(values, "model-plugin");
  const std::size_t before = models::model_entries().size();
  if (!plugin.empty()) models::load_plugin(plugin);
  if (!script.empty()) {
    SHOAL_CHECK(name.empty(), OptionError, "--model {} and --model-script {} name two models: give one of them", name,
                script);
    models::ModelEntry entry = models::load_script_model(script);
    const std::string own = entry.name;
    models::add_model(std::move(entry));
    return own;
  }
  if (!name.empty()) return name;
  SHOAL_CHECK(!plugin.empty(), OptionError, "--model is missing; see shoal train --help");
  SHOAL_CHECK(models::model_entries().size() == before + 1, OptionError,
              "--model-plugin {} brings {} models: say which by --model", plugin,
              models::model_entries().size() - before);
  return models::model_entries().back().name;
}

}  // namespace

std::string train_help() {
  TrainOptions ignored;
  std::ostringstream text;
  text << "mpirun -n RANKS shoal train --model NAME --data PATH [options]\n\n"
       << "Each option can also be given as an environment variable (SHOAL_BATCH_SIZE=64) or in --config FILE\n"
       << "(batch-size = 64); the command line wins over the environment, and that over the file.\n\n"
       << all_options(ignored) << "\ndocs/training.md tells more; docs/exit_codes.md lists the exit codes.";
  return text.str();
}

std::optional<TrainOptions> parse_train_options(const std::vector<std::string>& arguments,
                                                const char* const* environment) {
  TrainOptions options;
  const po::options_description description = all_options(options);
  po::variables_map values;
  store_all(arguments, environment, description, values);
  if (values.count("help")) return std::nullopt;
  // The model's defaults first, then what the user gave goes over them.
  const std::string model = model_name(values);
  options = train::defaults_for(models::find_model(model));
  from("", [&] { po::notify(values); });
  options.model.name = model;
  train::complete_and_check(options);
  return options;
}

}  // namespace shoal::apps
