#include "train/training_state.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/check.h"
#include "core/logging.h"

namespace shoal::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// Options whose change the user should hear of, since they bend the curve; others (files, logging, sharding) do not.
constexpr std::array<std::string_view, 14> kCourse{
    "lr",       "momentum",    "betas",          "eps",        "weight-decay",      "schedule",    "warmup",
    "no-decay", "param-group", "clip-grad-norm", "accumulate", "global-batch-size", "param-dtype", "reduce-dtype"};

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

void warn_of_changes(const Json& state, const std::string& where, const TrainOptions& options) {
  for (const auto& [name, value] : resolved(options)) {
    const std::string before = state.value(Json::json_pointer("/options/" + name), std::string(value));
    if (before == value || std::find(kCourse.begin(), kCourse.end(), name) == kCourse.end()) continue;
    log::warning("--{} is {} now and was {} when {} was written; the run goes on with {}", name, value, before, where,
                 value);
  }
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
  if (progress.loss_scaler)
    state["loss_scaler"] = {{"scale", progress.loss_scaler->scale}, {"good_steps", progress.loss_scaler->good_steps}};
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
  for (const auto& [name, value] : resolved(options)) state["options"][name] = value;
  return state.dump();
}

Progress parse_progress(const std::string& text, const std::string& where) {
  const Json state = parse(text, where);
  Progress progress;
  progress.step = get<std::int64_t>(state, "/step", where);
  progress.optimizer_steps = state.value("optimizer_steps", progress.step);
  if (state.contains("loss_scaler"))
    progress.loss_scaler = {get<double>(state, "/loss_scaler/scale", where),
                            get<std::int64_t>(state, "/loss_scaler/good_steps", where)};
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
}

void check_continues(const std::string& text, const std::string& where, const TrainOptions& options,
                     const DataIdentity& data) {
  const Json state = parse(text, where);
  check_same_data(state, where, options, data);
  warn_of_changes(state, where, options);
}

}  // namespace shoal::train
