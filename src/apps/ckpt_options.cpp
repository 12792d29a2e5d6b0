#include "apps/ckpt_options.h"

#include <array>
#include <boost/program_options/value_semantic.hpp>
#include <charconv>
#include <string_view>
#include <utility>

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

void add_workers_option(po::options_description& options, const char* what, std::optional<int> workers) {
  auto* const value = workers ? po::value<int>()->default_value(*workers)
                              : po::value<int>()->default_value(checkpoint::default_workers(), "one a core, up to 4");
  options.add_options()("workers", value->value_name("N"), what);
}

int workers_of(const po::variables_map& values) {
  const int workers = values["workers"].as<int>();
  SHOAL_CHECK(workers >= 1, OptionError, "--workers {} is no number of threads; it is 1 or more", workers);
  return workers;
}

void add_dtype_option(po::options_description& options, const char* what) {
  options.add_options()("dtype", po::value<std::string>()->value_name("fp32|bf16|fp16"), what);
}

std::optional<DType> dtype_of(const po::variables_map& values) {
  if (!values.count("dtype")) return std::nullopt;
  const std::string name = values["dtype"].as<std::string>();
  if (name == "fp32") return DType::float32;
  if (name == "bf16") return DType::bfloat16;
  SHOAL_CHECK(name == "fp16", OptionError, "--dtype {} is not known; it is fp32, bf16 or fp16", name);
  return DType::float16;
}

void add_memory_option(po::options_description& options) {
  options.add_options()("memory", po::value<std::string>()->value_name("SIZE")->default_value("1GiB"),
                        "the most memory to take; fewer threads if need be");
}

std::int64_t memory_of(const po::variables_map& values) {
  return bytes_from("memory", values["memory"].as<std::string>());
}

void add_choice_options(po::options_description& options) {
  const auto texts = [](const char* name) { return po::value<std::vector<std::string>>()->value_name(name); };
  options.add_options()("select", texts("GLOB"),
                        "only parameters of these names, and their optimizer's state; '*' stays within a part of a "
                        "name, '**' crosses dots; several times");
  options.add_options()("rename", texts("OLD=NEW|FILE"),
                        "gives other names: by OLD=NEW, with '*' or '**' in both for all that fit, or by a file of "
                        "rules, one a line: 'REGEX -> REPLACEMENT'; several times");
}

std::vector<std::string> selected_by(const po::variables_map& values) {
  return values.count("select") ? values["select"].as<std::vector<std::string>>() : std::vector<std::string>{};
}

checkpoint::RenameRules renamed_by(const po::variables_map& values) {
  if (!values.count("rename")) return {};
  return checkpoint::RenameRules::parse(values["rename"].as<std::vector<std::string>>());
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
