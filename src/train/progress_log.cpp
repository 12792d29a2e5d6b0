#include "train/progress_log.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/logging.h"
#include "train/device.h"

namespace shoal::train {
namespace {

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

double rate(std::int64_t samples, double seconds) { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }

// Three digits at least: large models go by the fraction of a sample.
std::string rate_text(double rate) { return rate < 100 ? fmt::format("{:.2f}", rate) : fmt::format("{:.0f}", rate); }

std::string epoch_of(std::int64_t epoch, const RunOptions& options) {
  return options.epochs == kNoEpochLimit ? fmt::format("epoch {}", epoch + 1)
                                         : fmt::format("epoch {}/{}", epoch + 1, options.epochs);
}

// "[#######-----------]  37 %  ", where somebody looks at a terminal.
std::string bar(std::int64_t step, std::int64_t total) {
  constexpr std::int64_t kWidth = 18;
  if (::isatty(STDERR_FILENO) == 0 || total <= 0) return "";
  const auto full = static_cast<std::size_t>(std::min(step, total) * kWidth / total);
  return fmt::format("[{}{}] {:3} %  ", std::string(full, '#'), std::string(kWidth - full, '-'), 100 * step / total);
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string memory_text(const launch::StepMetrics& m) {
  if (!m.allocated) return fmt::format("  memory {:.0f} MiB, peak {:.0f}", mebibytes(*m.reserved), mebibytes(m.peak));
  return fmt::format("  memory {:.0f} MiB, reserved {:.0f}, peak {:.0f}", mebibytes(*m.allocated),
                     mebibytes(*m.reserved), mebibytes(m.peak));
}

std::string split_text(const launch::StepMetrics& m) {
  const std::string step = fmt::format("  {:.1f} ms a step", m.step_ms);
  if (!m.split) return step;
  return step + fmt::format(" (compute {:.1f}, exposed {:.1f}, optimizer {:.1f}, data {:.1f}, host {:.1f})",
                            m.split->compute, m.split->exposed, m.split->optimizer, m.split->data, m.split->host);
}

}  // namespace

ProgressLog::ProgressLog(const RunOptions& options, const RateFacts& facts, int ranks, std::int64_t total_steps)
    : options_(options), facts_(facts), ranks_(ranks), total_steps_(total_steps) {}

std::optional<launch::StepMetrics> ProgressLog::step(const Progress& after, std::int64_t epoch,
                                                     const StepResult& result, double seconds, double learning_rate,
                                                     at::Device device, const std::optional<launch::StepSplit>& split) {
  samples_ += result.samples, epoch_samples_ += result.samples;
  seconds_ += seconds, epoch_seconds_ += seconds;
  ++steps_, ++epoch_steps_;
  if (result.overflowed)
    log::warning("step {}: the gradients overflowed in fp16; the step was left out, and the loss scale is {:g} now",
                 after.step, result.loss_scale);
  if (!tells(after.step)) return std::nullopt;
  const MemoryUse memory = memory_use(device);
  launch::StepMetrics metrics{.step = after.step,
                              .epoch = epoch,
                              .loss = result.mean_loss(),
                              .learning_rate = learning_rate,
                              .grad_norm = result.grad_norm,
                              .samples_per_second = rate(samples_, seconds_),
                              .step_ms = 1e3 * seconds_ / static_cast<double>(steps_),
                              .split = split,
                              .allocated = memory.allocated,
                              .reserved = memory.reserved,
                              .peak = memory.peak};
  if (facts_.tokens_a_sample > 0)
    metrics.tokens_per_second = metrics.samples_per_second * static_cast<double>(facts_.tokens_a_sample);
  if (facts_.flops_a_sample > 0 && facts_.peak_flops > 0)
    metrics.mfu = metrics.samples_per_second * facts_.flops_a_sample / (ranks_ * facts_.peak_flops);
  if (total_steps_ >= after.step)
    metrics.seconds_left = static_cast<double>(total_steps_ - after.step) * metrics.step_ms / 1e3;
  log::info("{}", line(metrics, epoch));
  samples_ = steps_ = 0;
  seconds_ = 0;
  return metrics;
}

std::string ProgressLog::line(const launch::StepMetrics& m, std::int64_t epoch) const {
  std::string text = fmt::format("{}step {}  {}  loss {:.6f}  lr {:.3g}", bar(m.step, total_steps_), m.step,
                                 epoch_of(epoch, options_), m.loss, m.learning_rate);
  if (m.grad_norm) text += fmt::format("  gradient norm {:.4f}", *m.grad_norm);
  text += fmt::format("  {} samples/s", rate_text(m.samples_per_second));
  if (ranks_ > 1) text += fmt::format(" ({} a rank)", rate_text(m.samples_per_second / ranks_));
  if (m.tokens_per_second) text += fmt::format("  {:.0f} tok/s", *m.tokens_per_second);
  if (m.mfu) text += fmt::format("  MFU {:.1f} %", 100 * *m.mfu);
  text += split_text(m) + memory_text(m);
  if (m.seconds_left) text += "  left " + duration(*m.seconds_left);
  return text;
}

void ProgressLog::epoch(const Progress& after, std::int64_t epoch) {
  log::result("{}: mean loss {:.6f}, {} steps, {:.1f} s, {} samples/s", epoch_of(epoch, options_),
              after.epoch_loss_sum / static_cast<double>(std::max<std::int64_t>(after.epoch_count, 1)), epoch_steps_,
              epoch_seconds_, rate_text(rate(epoch_samples_, epoch_seconds_)));
  epoch_samples_ = epoch_steps_ = 0;
  epoch_seconds_ = 0;
}

void ProgressLog::evaluation(const models::EvalSum& sum, models::Metric metric) const {
  const auto count = static_cast<double>(sum.count);
  if (metric == models::Metric::perplexity) {
    const double loss = sum.loss_sum / count;
    log::result("test loss {:.6f}, perplexity {:.3f}, accuracy {:.2f} % of {} tokens", loss, std::exp(loss),
                100.0 * static_cast<double>(sum.correct) / count, sum.count);
    return;
  }
  log::result("test accuracy {:.2f} % ({}/{}), mean loss {:.4f}", 100.0 * static_cast<double>(sum.correct) / count,
              sum.correct, sum.count, sum.loss_sum / count);
}

void ProgressLog::summary(comm::ProcessGroup& world, at::Device device) const {
  const std::int64_t mine = memory_use(at::kCPU).peak;
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&mine, all.data(), 1, DType::int64)->wait();
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  log::result("run time {:.1f} s, peak memory of a rank {:.0f} MiB (rank {}; least {:.0f} MiB, rank {})",
              run_.seconds(), mebibytes(*most), most - all.begin(), mebibytes(*least), least - all.begin());
  if (device.is_cpu()) return;
  const std::int64_t on_device = comm::all_reduce(world, peak_device_memory(device), comm::ReduceOp::max);
  log::result("peak memory of a GPU {:.0f} MiB", mebibytes(on_device));
}

void log_options(const TrainOptions& options) {
  constexpr std::size_t kWidth = 110;
  std::string line = "options:";
  for (const auto& [name, value] : resolved(options)) {
    const std::string item = fmt::format(" --{} {}", name, value);
    if (line.size() + item.size() > kWidth) {
      log::info("{}", line);
      line = "  ";
    }
    line += item;
  }
  log::info("{}", line);
}

}  // namespace shoal::train
