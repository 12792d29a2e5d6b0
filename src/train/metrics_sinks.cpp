#include "train/metrics_sinks.h"

#include <unistd.h>

#include "core/host_name.h"
#include "core/logging.h"
#include "launch/deadline.h"

namespace shoal::train {
namespace {

using Scalars = std::vector<std::pair<std::string, double>>;

// The tags in TensorBoard: a section a slash.
Scalars scalars_of(const launch::StepMetrics& m) {
  Scalars all{{"train/loss", m.loss},
              {"train/learning_rate", m.learning_rate},
              {"rate/samples_per_second", m.samples_per_second},
              {"rate/step_ms", m.step_ms},
              {"memory/peak_bytes", static_cast<double>(m.peak)}};
  const auto add = [&all](const char* tag, const auto& value) {
    if (value) all.emplace_back(tag, static_cast<double>(*value));
  };
  add("train/grad_norm", m.grad_norm);
  add("rate/tokens_per_second", m.tokens_per_second);
  add("rate/mfu", m.mfu);
  add("memory/allocated_bytes", m.allocated);
  add("memory/reserved_bytes", m.reserved);
  if (!m.split) return all;
  all.insert(all.end(), {{"split_ms/compute", m.split->compute},
                         {"split_ms/exposed_communication", m.split->exposed},
                         {"split_ms/optimizer", m.split->optimizer},
                         {"split_ms/data", m.split->data},
                         {"split_ms/host", m.split->host}});
  return all;
}

}  // namespace

MetricsSinks::MetricsSinks(const launch::RunAttempt& attempt, const TrainOptions& options, int ranks)
    : attempt_(attempt.number),
      ranks_(ranks),
      model_(options.model.name),
      strategy_(options.sharding.strategy),
      file_(attempt.directory.metrics()) {
  if (options.run.tensorboard)
    tensorboard_.emplace(attempt.directory.tensorboard(attempt.number), fmt::format("{}.{}", host_name(), ::getpid()),
                         launch::unix_now());
}

void MetricsSinks::start(const std::string& device, std::int64_t from_step, std::int64_t total_steps) {
  file_.append(launch::MetricsStart{.attempt = attempt_,
                                    .time = launch::unix_now(),
                                    .model = model_,
                                    .strategy = strategy_,
                                    .device = device,
                                    .ranks = ranks_,
                                    .from_step = from_step,
                                    .total_steps = total_steps});
}

void MetricsSinks::step(launch::StepMetrics metrics) {
  metrics.attempt = attempt_;
  metrics.ranks = ranks_;
  metrics.time = launch::unix_now();
  file_.append(metrics);
  to_tensorboard(metrics.time, metrics.step, scalars_of(metrics));
}

void MetricsSinks::checkpoint(std::int64_t step, std::int64_t bytes, double seconds) {
  const double now = launch::unix_now();
  file_.append(launch::CheckpointMetrics{attempt_, now, step, bytes, seconds});
  to_tensorboard(now, step, {{"checkpoint/seconds", seconds}, {"checkpoint/bytes", static_cast<double>(bytes)}});
}

void MetricsSinks::validation(std::int64_t step, double loss, double accuracy) {
  const double now = launch::unix_now();
  file_.append(launch::ValidationMetrics{attempt_, now, step, loss, accuracy});
  to_tensorboard(now, step, {{"validation/loss", loss}, {"validation/accuracy", accuracy}});
}

void MetricsSinks::to_tensorboard(double time, std::int64_t step, const Scalars& scalars) {
  if (!tensorboard_) return;
  try {
    tensorboard_->add(time, step, scalars);
  } catch (const Error& error) {
    tensorboard_.reset();
    log::warning("TensorBoard gets no more numbers of this attempt: {}", error.what());
  }
}

}  // namespace shoal::train
