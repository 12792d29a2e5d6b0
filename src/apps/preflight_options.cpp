#include "apps/preflight_options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>

#include "apps/command_line.h"
#include "core/check.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;

const Verb kVerb{
    .name = "preflight",
    .synopsis = "srun shoal preflight [options]        (or mpirun -n RANKS shoal preflight)",
    .summary =
        "Is this allocation fit? Looks at the placement of the ranks, messages between nodes, the file system of the\n"
        "checkpoint directory, clocks, limits, variables, and GPUs; ends with a table and, for what failed, with the\n"
        "hosts to leave out. Each option can also be given as an environment variable (SHOAL_CHECKPOINT_DIR=DIR).",
    .example = "srun shoal preflight --checkpoint-dir $SCRATCH/run1 --checkpoint-gib 40",
    .see = "docs/preflight.md tells more; docs/exit_codes.md lists the exit codes."};

constexpr std::int64_t kMostMiB = 1 << 20;
constexpr int kMostSeconds = 24 * 3600;

po::options_description described() {
  po::options_description all("Options");
  const auto add = [&](const char* name, auto otherwise, const char* value, const char* text) {
    all.add_options()(name, po::value<decltype(otherwise)>()->default_value(otherwise)->value_name(value), text);
  };
  const auto add_path = [&](const char* name, const char* value, const char* text) {
    all.add_options()(name, po::value<std::string>()->value_name(value), text);
  };
  const PreflightOptions defaults;
  add_path("checkpoint-dir", "DIR", "where the job's checkpoints will go; its file system is tried out");
  add_path("run-dir", "DIR", "where the job's records will go, if elsewhere");
  add("size", defaults.size_mib, "MIB", "that each rank writes to the checkpoint directory and reads; 0: no speeds");
  add("checkpoint-gib", defaults.checkpoint_gib, "N",
      "size of a checkpoint, for which there must be room; 0: not known (shoal train --dry-run prints it)");
  add("keep", defaults.keep, "N", "checkpoints that the job keeps; one more must fit while it is written");
  add("device", defaults.device, "KIND",
      "auto: GPUs where there are some; cuda: they must be there; cpu: none are used");
  add("timeout", static_cast<int>(defaults.timeout.count()), "SECONDS",
      "everything is over by then; a rank or host that did not come is named");
  add_path("json", "FILE", "writes all that was found there too");
  all.add_options()("help", "show this and stop");
  return all;
}

// "SHOAL_CHECKPOINT_DIR": "checkpoint-dir"; "" for what is no option of this program, since all programs share them.
std::string option_of(const std::string& variable, const po::options_description& options) {
  constexpr std::string_view kPrefix = "SHOAL_";
  if (!variable.starts_with(kPrefix)) return "";
  std::string name = variable.substr(kPrefix.size());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  return name != "help" && options.find_nothrow(name, false) != nullptr ? name : "";
}

po::variables_map parse(const std::vector<std::string>& arguments) {
  po::variables_map values;
  const po::options_description options = described();
  try {
    store_arguments(arguments, options, kVerb.paths, values);
    const auto known = [&](const std::string& variable) { return option_of(variable, options); };
    po::store(po::parse_environment(options, known), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw OptionError("shoal preflight: {}", explain(error, options, kVerb.name));
  }
  return values;
}

std::string path_in(const po::variables_map& values, const char* name) {
  if (!values.count(name)) return "";
  const auto& path = values[name].as<std::string>();
  SHOAL_CHECK(!path.empty(), OptionError, "--{} is empty: give a path, or leave it out", name);
  return path;
}

}  // namespace

std::string preflight_help() { return help_text(kVerb, {described()}); }
std::string preflight_description() { return description_of(kVerb, {described()}); }

std::optional<PreflightOptions> parse_preflight_options(const std::vector<std::string>& arguments) {
  const po::variables_map values = parse(arguments);
  if (values.count("help")) return std::nullopt;
  PreflightOptions options;
  options.checkpoint_dir = path_in(values, "checkpoint-dir");
  options.run_dir = path_in(values, "run-dir");
  options.json = path_in(values, "json");
  options.size_mib = values["size"].as<std::int64_t>();
  options.checkpoint_gib = values["checkpoint-gib"].as<double>();
  options.keep = values["keep"].as<int>();
  options.device = values["device"].as<std::string>();
  const int timeout = values["timeout"].as<int>();
  options.timeout = std::chrono::seconds(timeout);
  SHOAL_CHECK(options.size_mib >= 0 && options.size_mib <= kMostMiB, OptionError, "--size {} is not between 0 and {}",
              options.size_mib, kMostMiB);
  SHOAL_CHECK(options.checkpoint_gib >= 0, OptionError, "--checkpoint-gib {} is no size", options.checkpoint_gib);
  SHOAL_CHECK(options.keep >= 1, OptionError, "--keep {}: 1 at least", options.keep);
  SHOAL_CHECK(timeout >= 1 && timeout <= kMostSeconds, OptionError, "--timeout {} is not between 1 and {}", timeout,
              kMostSeconds);
  const std::string& device = options.device;
  SHOAL_CHECK(device == "auto" || device == "cpu" || device == "cuda", OptionError, "--device {}: auto, cpu or cuda",
              device);
  return options;
}

}  // namespace shoal::apps
