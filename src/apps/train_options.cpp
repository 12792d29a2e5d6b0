#include "apps/train_options.h"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cctype>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include "core/check.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;
using train::TrainOptions;

// Through a string: a path's own operator>> would stop at a space.
po::value_semantic* path_value(std::filesystem::path& into) {
  return po::value<std::string>()->value_name("PATH")->notifier([&into](const std::string& text) { into = text; });
}

template <typename T>
po::value_semantic* value(T& into, const char* name) {
  return po::value<T>(&into)->value_name(name);
}

// Where 0 stands for "not given", it cannot be given.
po::value_semantic* count_value(std::int64_t& into, const char* name, const char* option) {
  return po::value<std::int64_t>(&into)->value_name(name)->notifier(
      [option](std::int64_t n) { SHOAL_CHECK(n >= 1, OptionError, "--{} must be at least 1, not {}", option, n); });
}

double parse_beta(std::string_view text, const std::string& all) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  SHOAL_CHECK(error == std::errc() && end == text.data() + text.size(), OptionError,
              "--betas takes two numbers with a comma between them, not '{}'", all);
  return number;
}

po::value_semantic* betas_value(optim::OptimizerOptions& rule) {
  return po::value<std::string>()->value_name("B1,B2")->notifier([&rule](const std::string& text) {
    const std::string_view view(text);
    const std::size_t comma = view.find(',');
    rule.beta1 = parse_beta(view.substr(0, comma), text);
    rule.beta2 = parse_beta(comma == view.npos ? std::string_view() : view.substr(comma + 1), text);
  });
}

std::string model_help() {
  std::string text = "the model:";
  for (const models::ModelEntry& entry : models::model_entries())
    text += fmt::format("\n{}: {}; unless told otherwise {} epochs, batch {}, {}, lr {}, {}, wrap {}", entry.name,
                        entry.summary, entry.defaults.epochs, entry.defaults.batch_size, entry.defaults.optimizer,
                        entry.defaults.learning_rate, entry.defaults.schedule, entry.defaults.wrap);
  return text;
}

po::options_description model_options(TrainOptions& o) {
  po::options_description d("Model and data");
  d.add_options()                                                                            //
      ("model", value(o.model, "NAME"), model_help().c_str())                                //
      ("data", path_value(o.data.path), "the training data; what they are, the model says")  //
      ("no-shuffle", po::bool_switch()->notifier([&o](bool given) { o.data.shuffle = !given; }),
       "take the samples in their order in the data")                                                       //
      ("epochs", value(o.run.epochs, "N"), "passes over the data")                                          //
      ("max-steps", value(o.run.max_steps, "N"), "end after N steps; without --epochs, that alone counts")  //
      ("test-batch-size", value(o.data.test_batch_size, "N"), "test samples of all ranks at a time (1000)");
  return d;
}

po::options_description batch_options(TrainOptions& o) {
  po::options_description d("Batches");
  d.add_options()                                                                                           //
      ("batch-size", count_value(o.batch.batch_size, "N", "batch-size"), "samples of a rank's micro-step")  //
      ("global-batch-size", count_value(o.batch.global_batch_size, "N", "global-batch-size"),
       "samples of a step over all ranks; with --batch-size, --accumulate follows")  //
      ("accumulate", count_value(o.batch.accumulate, "K", "accumulate"), "micro-steps a step (1)");
  return d;
}

po::options_description sharding_options(TrainOptions& o) {
  po::options_description d("Sharding");
  d.add_options()  //
      ("strategy", value(o.sharding.strategy, "NAME"),
       "full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2; or zero3, zero2, zero1")              //
      ("shard-size", value(o.sharding.shard_size, "N"), "ranks a shard group of the hybrid strategies (a node's)")   //
      ("wrap", value(o.sharding.wrap, "POLICY"), "units: none, size:MIN_PARAMS, class:NAME,..., name:PATTERN,...")   //
      ("forward-prefetch", value(o.sharding.forward_prefetch, "N"), "units gathered ahead in the forward pass (1)")  //
      ("backward-prefetch", value(o.sharding.backward_prefetch, "N"), "the same in the backward pass (1)")           //
      ("print-model", po::bool_switch(&o.run.print_model),
       "show the modules and their units; without --data, that is all");
  return d;
}

po::options_description optimizer_options(TrainOptions& o) {
  po::options_description d("Optimizer");
  d.add_options()                                                                        //
      ("optimizer", value(o.optimizer.rule.name, "NAME"), "sgd, adam, adamw, adadelta")  //
      ("lr", value(o.optimizer.learning_rate, "X"), "learning rate")                     //
      ("momentum", value(o.optimizer.rule.momentum, "X"), "of sgd (0)")                  //
      ("betas", betas_value(o.optimizer.rule), "of adam and adamw (0.9,0.999)")          //
      ("weight-decay", value(o.optimizer.rule.weight_decay, "X"),
       "decoupled for adamw, else added to the gradient (0)")  //
      ("schedule", value(o.optimizer.schedule, "S"),
       "constant, or step:SIZE:GAMMA: times GAMMA after every SIZE epochs")  //
      ("clip-grad-norm", value(o.optimizer.clip_grad_norm, "X"), "largest 2-norm of the whole gradient (0: any)");
  return d;
}

po::options_description checkpoint_options(TrainOptions& o) {
  po::options_description d("Checkpoints");
  d.add_options()                                                                                                 //
      ("checkpoint-dir", path_value(o.checkpoint.directory), "where they go (checkpoints/MODEL); none: nowhere")  //
      ("checkpoint-every", value(o.checkpoint.every, "N|Ne"),
       "steps, or epochs (1e); 0: only at the end of the job")                                                       //
      ("keep", value(o.checkpoint.keep, "N"), "newest checkpoints kept (2)")                                         //
      ("resume", value(o.checkpoint.resume, "WHAT"), "auto (the newest, if there is one), never, or a path (auto)")  //
      ("output", path_value(o.checkpoint.output),
       "the weights in one file at the end, FILE.h5 or FILE.pt (CHECKPOINT_DIR/MODEL.h5); none: not written");
  return d;
}

po::options_description run_options(TrainOptions& o) {
  po::options_description d("Run");
  d.add_options()                                                                                             //
      ("seed", value(o.run.seed, "N"), "of initial weights, order of samples and dropout (1)")                //
      ("device", value(o.run.device, "NAME"), "auto, cpu, cuda (auto)")                                       //
      ("threads", value(o.run.threads, "N"), "threads of a rank (its share of the node's cores)")             //
      ("collective-timeout", value(o.run.collective_timeout, "S"), "seconds to wait for another rank (600)")  //
      ("log-every", value(o.run.log_every, "N"), "steps between lines of progress (10)")                      //
      ("quiet", po::bool_switch(&o.run.quiet), "results, warnings and errors alone")                          //
      ("dry-run", po::bool_switch(&o.run.dry_run), "check everything, train and write nothing")               //
      ("config", po::value<std::string>()->value_name("FILE"), "more options, as lines of name = value")      //
      ("help", "show this and stop");
  return d;
}

po::options_description all_options(TrainOptions& o) {
  po::options_description all("Options");
  for (const auto& group : {model_options(o), batch_options(o), sharding_options(o), optimizer_options(o),
                            checkpoint_options(o), run_options(o)})
    all.add(group);
  return all;
}

// Not options, yet they may stand in the environment.
bool is_foreign(std::string_view variable) {
  constexpr std::array<std::string_view, 2> kNames{"SHOAL_CACHE", "SHOAL_VERSION"};
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
  SHOAL_CHECK(values.count("model"), OptionError, "--model is missing; see shoal train --help");
  // The model's defaults first, then what the user gave goes over them.
  options = train::defaults_for(models::find_model(values["model"].as<std::string>()));
  from("", [&] { po::notify(values); });
  train::complete_and_check(options);
  return options;
}

}  // namespace shoal::apps
