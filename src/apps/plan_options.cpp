#include "apps/plan_options.h"

#include <algorithm>
#include <boost/program_options.hpp>

#include "apps/command_line.h"
#include "apps/train_options.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;

constexpr int kUsualNode = 8;

const Verb kVerb{
    .name = "plan",
    .synopsis = "shoal plan --model NAME --ranks N [--card-gib X] [options of shoal train]",
    .summary =
        "Tells what a rank needs: parameters, gradients, optimizer states, the buffers of the units in use and the "
        "activations\nof a micro-batch, by every strategy; what a step sends, and what a checkpoint takes. Nothing of "
        "it is allocated, and\nno MPI is needed. The options of shoal train (--wrap, --param-dtype, --offload, "
        "--optimizer, --batch-size and the\nothers) mean the same here; shoal train --help lists them.",
    .example = "shoal plan --model llama-8b --ranks 16 --param-dtype bf16 --card-gib 80",
    .see = "docs/plan.md tells more."};

po::options_description own_options(PlanOptions& options) {
  po::options_description own("Plan");
  own.add_options()                                                                              //
      ("ranks", po::value(&options.ranks)->value_name("N"), "ranks of the job that is planned")  //
      ("ranks-per-node", po::value(&options.ranks_per_node)->value_name("N"),
       "for the hybrid strategies (all of them, up to 8)")                                              //
      ("card-gib", po::value(&options.card_gib)->value_name("X"), "memory of a GPU, to say what fits")  //
      ("json", po::bool_switch(&options.json), "the same for programs, in bytes")                       //
      ("help", "show this and stop");
  return own;
}

void check(PlanOptions& options) {
  SHOAL_CHECK(options.ranks >= 1, OptionError,
              "shoal plan: --ranks N is missing, or below 1: the number of ranks to plan for");
  SHOAL_CHECK(options.card_gib >= 0, OptionError, "shoal plan: --card-gib {} is negative", options.card_gib);
  if (options.ranks_per_node == 0) options.ranks_per_node = std::min(options.ranks, kUsualNode);
  SHOAL_CHECK(options.ranks_per_node >= 1 && options.ranks % options.ranks_per_node == 0, OptionError,
              "shoal plan: --ranks {} is no multiple of --ranks-per-node {}", options.ranks, options.ranks_per_node);
}

}  // namespace

std::optional<PlanOptions> parse_plan_options(const std::vector<std::string>& arguments,
                                              const char* const* environment) {
  PlanOptions options;
  const po::options_description own = own_options(options);
  constexpr int kStyle = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  std::vector<std::string> others;
  try {
    const po::parsed_options parsed =
        po::command_line_parser(arguments).options(own).style(kStyle).allow_unregistered().run();
    po::variables_map values;
    po::store(parsed, values);
    po::notify(values);
    if (values.count("help")) return std::nullopt;
    others = po::collect_unrecognized(parsed.options, po::include_positional);
  } catch (const po::error& error) {
    throw OptionError("shoal plan: {}", explain(error, own, kVerb.name));
  }
  others.emplace_back("--print-model");  // needs no data
  auto train =
      parse_train_options(others, environment, std::max(options.ranks, 1));  // first: it knows all other options
  check(options);
  SHOAL_ASSERT(train.has_value());
  for (const std::string& said : {train->translated, train->warning})
    if (!said.empty()) log::info("{}", said);
  options.train = std::move(train->options);
  return options;
}

std::string plan_help() {
  PlanOptions ignored;
  return help_text(kVerb, {own_options(ignored)});
}

std::string plan_description() {
  PlanOptions ignored;
  return description_of(kVerb, {own_options(ignored)});
}

}  // namespace shoal::apps
