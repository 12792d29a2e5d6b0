#include "train/training_state.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/logging.h"
#include "train/option_changes.h"

namespace shoal::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

Json parse(const std::string& text, const std::string& where) {
  Json state = Json::parse(text, nullptr, false);
  SHOAL_CHECK(state.is_object() && state.contains("version"), CheckpointError,
              "{}: its training state is not that of a training run", where);
  const int version = state.value("version", 0);
  SHOAL_CHECK(version == kVersion, CheckpointError, "{}: training state of version {}; this program reads version {}",
              where, version, kVersion);
  return state;
}

// Names what is missing or of the wrong type instead of letting the library's exception through.
template <typename T>
T get(const Json& state, const char* pointer, const std::string& where) {
  try {
    return state.at(Json::json_pointer(pointer)).get<T>();
  } catch (const Json::exception&) {
    throw CheckpointError("{}: its training state lacks a proper {}", where, pointer);
  }
}

void check_same_data(const Json& state, const std::string& where, const TrainOptions& options,
                     const DataIdentity& data) {
  const DataIdentity before{get<std::int64_t>(state, "/data/samples", where),
                            get<std::uint32_t>(state, "/data/fingerprint", where)};
  const bool in_epoch = get<std::int64_t>(state, "/samples_consumed", where) > 0;
  const bool other_order = get<bool>(state, "/shuffle", where) != options.data.shuffle;
  if (before == data && !other_order) return;
  const std::string what = before == data
                               ? "--no-shuffle has changed"
                               : fmt::format("--data holds other samples ({}, {} then)", data.samples, before.samples);
  SHOAL_CHECK(!in_epoch, OptionError,
              "{}: {}, and the run was stopped in the middle of an epoch, so that its place in the data means nothing "
              "now: restore the option, or start anew with another --checkpoint-dir",
              where, what);
  log::warning("{}: {}; the run goes on with them from its next epoch", where, what);
}

std::vector<OptionChange> changes_since(const Json& state, const TrainOptions& options) {
  const NamedValues now = resolved(options);
  if (state.value("options_hash", "") == options_hash(now)) return {};
  NamedValues before;
  if (state.contains("options") && state["options"].is_object())
    for (const auto& [name, value] : state["options"].items())
      if (value.is_string()) before.emplace_back(name, value.get<std::string>());
  return changes_between(before, now);
}

// The tensors themselves are compared when they are restored.
void check_same_import(const Json& state, const std::string& where, const TrainOptions& options) {
  SHOAL_CHECK(
      get<bool>(state, "/imported/with_optimizer", where), CheckpointError,
      "{} was imported without an optimizer's state, so that there is nothing to resume: give it to --init-from, "
      "with another --checkpoint-dir",
      where);
  const auto optimizer = get<std::string>(state, "/optimizer", where);
  SHOAL_CHECK(optimizer.empty() || optimizer == options.optimizer.rule.name, CheckpointError,
              "{} was trained with {}, whose state --optimizer {} cannot use: give --optimizer {}", where, optimizer,
              options.optimizer.rule.name, optimizer);
}

void warn_of_changes(const Json& state, const std::string& where, const TrainOptions& options) {
  for (const OptionChange& change : changes_since(state, options))
    if (change.rule == ChangeRule::warned)
      log::warning("--{} is {} now and was {} when {} was written; the run goes on with {}", change.name, change.now,
                   change.before, where, change.now);
}

void check_same_options(const std::string& text, const std::string& where, const TrainOptions& options) {
  std::vector<std::string> refused;
  for (const OptionChange& change : changes_since(parse(text, where), options))
    if (change.rule == ChangeRule::refused)
      refused.push_back(fmt::format("--{} is {} now and was {}", change.name, change.now, change.before));
  SHOAL_CHECK(refused.empty(), OptionError,
              "{} was written with other options, with which its state means something else: {}; give them as they "
              "were, or another --checkpoint-dir",
              where, fmt::join(refused, "; "));
}

}  // namespace

std::string format_training_state(const TrainOptions& options, const Progress& progress, const DataIdentity& data,
                                  int ranks) {
  Json state;
  state["version"] = kVersion;
  state["model"] = options.model.name;
  state["optimizer"] = options.optimizer.rule.name;
  state["seed"] = options.run.seed;
  state["ranks"] = ranks;
  state["step"] = progress.step;
  state["optimizer_steps"] = progress.optimizer_steps;
  state["tokens"] = progress.tokens;
  if (progress.loss_scaler)
    state["loss_scaler"] = {{"scale", progress.loss_scaler->scale},
                            {"good_steps", progress.loss_scaler->good_steps},
                            {"tolerated", progress.loss_scaler->tolerated}};
  state["epoch"] = progress.position.epoch;
  state["samples_consumed"] = progress.position.consumed;
  state["shuffle"] = options.data.shuffle;
  state["data"] = {{"samples", data.samples}, {"fingerprint", data.fingerprint}};
  state["epoch_loss"] = {{"sum", progress.epoch_loss_sum}, {"count", progress.epoch_count}};
  if (progress.test_step >= 0)
    state["test"] = {{"step", progress.test_step},
                     {"accuracy", progress.test_accuracy},
                     {"mean_loss", progress.test_loss},
                     {"best_accuracy", progress.best_test_accuracy}};
  const NamedValues values = resolved(options);
  state["options_hash"] = options_hash(values);
  for (const auto& [name, value] : values) state["options"][name] = value;
  return state.dump();
}

bool is_imported(const std::string& text) {
  const Json state = Json::parse(text, nullptr, false);
  return state.is_object() && state.contains("imported");
}

data::SamplePosition position_after(std::int64_t steps, std::int64_t samples, std::int64_t global_batch) {
  const std::int64_t steps_an_epoch = (samples + global_batch - 1) / global_batch;
  return {steps / steps_an_epoch, steps % steps_an_epoch * global_batch};
}

Progress parse_progress(const std::string& text, const std::string& where) {
  const Json state = parse(text, where);
  Progress progress;
  progress.step = get<std::int64_t>(state, "/step", where);
  progress.optimizer_steps = state.value("optimizer_steps", progress.step);
  progress.tokens = state.value("tokens", std::int64_t{0});
  if (is_imported(text)) return progress;
  if (state.contains("loss_scaler"))
    progress.loss_scaler = {get<double>(state, "/loss_scaler/scale", where),
                            get<std::int64_t>(state, "/loss_scaler/good_steps", where),
                            state["loss_scaler"].value("tolerated", std::int64_t{0})};
  progress.position = {get<std::int64_t>(state, "/epoch", where), get<std::int64_t>(state, "/samples_consumed", where)};
  progress.epoch_loss_sum = get<double>(state, "/epoch_loss/sum", where);
  progress.epoch_count = get<std::int64_t>(state, "/epoch_loss/count", where);
  if (state.contains("test")) {
    progress.test_step = get<std::int64_t>(state, "/test/step", where);
    progress.test_accuracy = get<double>(state, "/test/accuracy", where);
    progress.test_loss = get<double>(state, "/test/mean_loss", where);
    progress.best_test_accuracy = get<double>(state, "/test/best_accuracy", where);
  }
  return progress;
}

void check_same_run(const std::string& text, const std::string& where, const TrainOptions& options) {
  const Json state = parse(text, where);
  if (is_imported(text)) return check_same_import(state, where, options);
  const auto model = get<std::string>(state, "/model", where), optimizer = get<std::string>(state, "/optimizer", where);
  SHOAL_CHECK(model == options.model.name, CheckpointError,
              "{} is a checkpoint of model {}, not of --model {}: give another --checkpoint-dir", where, model,
              options.model.name);
  SHOAL_CHECK(optimizer == options.optimizer.rule.name, CheckpointError,
              "{} was trained with {}, whose state --optimizer {} cannot use: give --optimizer {}, or another "
              "--checkpoint-dir",
              where, optimizer, options.optimizer.rule.name, optimizer);
  const auto seed = get<std::int64_t>(state, "/seed", where);
  SHOAL_CHECK(seed == options.run.seed, OptionError,
              "{} was trained with seed {}, not {}: give --seed {} to go on, or another --checkpoint-dir to start anew",
              where, seed, options.run.seed, seed);
  check_same_options(text, where, options);
}

void check_continues(const std::string& text, const std::string& where, const TrainOptions& options,
                     const DataIdentity& data) {
  const Json state = parse(text, where);
  if (is_imported(text)) return;
  check_same_data(state, where, options, data);
  warn_of_changes(state, where, options);
}

}  // namespace shoal::train
