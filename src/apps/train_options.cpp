#include "apps/train_options.h"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cctype>
#include <fstream>
#include <string_view>

#include "apps/train_option_groups.h"
#include "configs/accelerate.h"
#include "configs/deepspeed.h"
#include "core/check.h"
#include "core/nearest.h"
#include "models/plugin.h"
#include "models/script_model.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;
using train::TrainOptions;

constexpr const char* kVerbName = "train";
const Verb kVerb{
    .name = kVerbName,
    .synopsis = "mpirun -n RANKS shoal train --model NAME --data PATH [options]        (or srun shoal train …)",
    .summary =
        "Trains a model on the ranks of a job. Each option can also be given as an environment variable "
        "(SHOAL_BATCH_SIZE=64)\nor in --config FILE (batch-size = 64); the command line wins over the environment, "
        "that over the file, and that over\nconfigs of other programs.",
    .example = "mpirun -n 2 shoal train --model mnist-net --data tests/data/mnist --epochs 2 --strategy full_shard",
    .see = "docs/training.md tells more; docs/exit_codes.md lists the exit codes."};

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
  if (options.find_nothrow(name, false) != nullptr) return name;
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back(option->long_name());
  throw OptionError("the environment variable {} belongs to no option of shoal train: unset it{}", variable,
                    did_you_mean(name, names, ", or see shoal train --help", "--"));
}

// Library errors with the place that they come from in front.
template <typename Body>
void from(const std::string& where, const po::options_description& options, const Body& body) {
  try {
    body();
  } catch (const po::error& error) {
    throw OptionError("{}{}", where, explain(error, options, kVerbName));
  }
}

void store_command_line(const std::vector<std::string>& arguments, const po::options_description& options,
                        po::variables_map& values) {
  from("", options, [&] { store_arguments(arguments, options, -1, values); });
  const auto extra = paths_of(values);
  SHOAL_CHECK(extra.empty(), OptionError, "'{}' is no option; see shoal train --help", extra.front());
}

// Whoever stores a value first wins.
void store_value(const std::string& where, const std::string& name, const std::string& value,
                 const po::options_description& options, po::variables_map& values) {
  po::parsed_options parsed(&options);
  parsed.options.emplace_back(name, std::vector<std::string>{value});
  from(where, options, [&] { po::store(parsed, values); });
}

void store_variable(const std::string& entry, const po::options_description& options, po::variables_map& values) {
  const std::size_t equals = std::min(entry.find('='), entry.size());
  const std::string variable = entry.substr(0, equals), name = option_of(variable, options);
  if (name.empty()) return;
  store_value("environment variable " + variable + ": ", name, entry.substr(std::min(equals + 1, entry.size())),
              options, values);
}

void store_file(const std::string& file, const po::options_description& options, po::variables_map& values) {
  std::ifstream stream(file);
  SHOAL_CHECK(stream, OptionError, "--config {}: the file cannot be read", file);
  from("--config " + file + ": ", options, [&] { po::store(po::parse_config_file(stream, options), values); });
}

// Whether the user has said it. A switch that nobody gave has a value too.
bool given(const po::variables_map& values, const std::string& option) {
  return values.count(option) > 0 && !values[option].defaulted();
}

std::string text_of(const po::variables_map& values, const char* option) {
  return values.count(option) > 0 ? values[option].as<std::string>() : "";
}

// What a config of another program stands for, below all that the user has said in Shoal's own words.
GivenOptions store_foreign(const po::options_description& options, int ranks, po::variables_map& values) {
  const std::string accelerate = text_of(values, "accelerate-config"), deepspeed = text_of(values, "deepspeed-config");
  SHOAL_CHECK(accelerate.empty() || deepspeed.empty(), OptionError,
              "--accelerate-config and --deepspeed-config are both given: give one, or name DeepSpeed's file in "
              "accelerate's (deepspeed_config_file)");
  if (accelerate.empty() && deepspeed.empty()) return {};
  const configs::Translation all = accelerate.empty() ? configs::translate_deepspeed(deepspeed, ranks)
                                                      : configs::translate_accelerate(accelerate, ranks);
  const std::string option =
      accelerate.empty() ? "--deepspeed-config " + deepspeed : "--accelerate-config " + accelerate;
  std::vector<configs::Setting> used;
  for (const configs::Setting& setting : all.settings) {
    if (!setting.only_with.empty() && values.count(setting.only_with) == 0) continue;
    // How many micro-steps follows from the global batch, which the user has set otherwise.
    if (setting.option == "accumulate" && values.count("global-batch-size") > 0) continue;
    if (!given(values, setting.option)) used.push_back(setting);
  }
  for (const configs::Setting& setting : used)
    store_value(fmt::format("{}: {}: ", option, setting.key), setting.option,
                setting.value.empty() ? "true" : setting.value, options, values);
  const std::string warning = configs::warning_of(all);
  return {{},
          fmt::format("{} is: {}", option, configs::command_line(used)),
          warning.empty() ? "" : fmt::format("{}: {}", option, warning)};
}

GivenOptions store_all(const std::vector<std::string>& arguments, const char* const* environment, int ranks,
                       const po::options_description& options, po::variables_map& values) {
  store_command_line(arguments, options, values);
  if (values.count("help")) return {};
  for (; *environment != nullptr; ++environment) store_variable(*environment, options, values);
  if (values.count("config") > 0) store_file(values["config"].as<std::string>(), options, values);
  return store_foreign(options, ranks, values);
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
  return help_text(kVerb, option_groups(ignored));
}

std::string train_description() {
  TrainOptions ignored;
  return description_of(kVerb, option_groups(ignored));
}

std::optional<GivenOptions> parse_train_options(const std::vector<std::string>& arguments,
                                                const char* const* environment, int ranks) {
  TrainOptions options;
  po::options_description description;
  for (const po::options_description& group : option_groups(options)) description.add(group);
  po::variables_map values;
  GivenOptions result = store_all(arguments, environment, ranks, description, values);
  if (values.count("help")) return std::nullopt;
  // The model's defaults first, then what the user gave goes over them.
  const std::string model = model_name(values);
  options = train::defaults_for(models::find_model(model));
  from("", description, [&] { po::notify(values); });
  options.model.name = model;
  train::complete_and_check(options);
  result.options = options;
  return result;
}

}  // namespace shoal::apps
