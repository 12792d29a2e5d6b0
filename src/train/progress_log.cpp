#include "train/progress_log.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/logging.h"
#include "train/device.h"

namespace shoal::train {
namespace {

// Bytes of memory that this process has held at most.
std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

double rate(std::int64_t samples, double seconds) { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }

// Three digits at least: large models go by the fraction of a sample.
std::string rate_text(double rate) { return rate < 100 ? fmt::format("{:.2f}", rate) : fmt::format("{:.0f}", rate); }

std::string epoch_of(std::int64_t epoch, const RunOptions& options) {
  return options.epochs == kNoEpochLimit ? fmt::format("epoch {}", epoch + 1)
                                         : fmt::format("epoch {}/{}", epoch + 1, options.epochs);
}

}  // namespace

void ProgressLog::step(const Progress& after, std::int64_t epoch, const StepResult& result, double seconds) {
  samples_ += result.samples, epoch_samples_ += result.samples;
  seconds_ += seconds, epoch_seconds_ += seconds;
  ++epoch_steps_;
  if (result.overflowed)
    log::warning("step {}: the gradients overflowed in fp16; the step was left out and the loss scale halved",
                 after.step);
  if (after.step % options_.log_every != 0) return;
  const std::string norm = result.grad_norm > 0 ? fmt::format("  gradient norm {:.4f}", result.grad_norm) : "";
  log::info("step {}  {}  loss {:.6f}{}  {} samples/s", after.step, epoch_of(epoch, options_), result.mean_loss(), norm,
            rate_text(rate(samples_, seconds_)));
  samples_ = 0;
  seconds_ = 0;
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
  const std::int64_t mine = peak_memory();
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
