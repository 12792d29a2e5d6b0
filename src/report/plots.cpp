#include "report/plots.h"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>

namespace shoal::report {
namespace {

using launch::StepMetrics;
using Value = std::function<double(const StepMetrics&)>;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr const char* kSteps = "step (number)";

// What a step does not have is no point.
double or_nothing(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

double gib(const std::optional<std::int64_t>& bytes) {
  return bytes ? static_cast<double>(*bytes) / kGiB : std::numeric_limits<double>::quiet_NaN();
}

Series series_of(const Run& run, std::size_t color, const std::string& label, const Value& value) {
  Series series{.label = label, .color = color};
  for (const StepMetrics& step : run.metrics.steps) {
    const double y = value(step);
    if (std::isfinite(y)) series.points.push_back({static_cast<double>(step.step), y});
  }
  return series;
}

// One line a run.
Plot compared(const std::vector<Run>& runs, const std::string& title, const std::string& y_axis, const Value& value) {
  Plot plot{.title = title, .x_axis = kSteps, .y_axis = y_axis, .series = {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series series = series_of(runs[i], i, runs[i].name, value);
    if (!series.points.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot loss_plot(const std::vector<Run>& runs) {
  Plot plot = compared(runs, "Loss", "loss (no unit)", [](const StepMetrics& step) { return step.loss; });
  plot.from_zero = false;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series tests{.label = runs[i].name + ", validation", .color = i, .points = {}, .kind = Series::Kind::dots};
    for (const auto& test : runs[i].metrics.validations)
      tests.points.push_back({static_cast<double>(test.step), test.loss});
    if (!tests.points.empty()) plot.series.push_back(std::move(tests));
  }
  return plot;
}

Plot memory_plot(const std::vector<Run>& runs) {
  Plot plot =
      compared(runs, "Memory", "memory of rank 0 (GiB)", [](const StepMetrics& step) { return gib(step.peak); });
  for (Series& series : plot.series) series.label += ", peak";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series now =
        series_of(runs[i], i, runs[i].name + ", reserved", [](const StepMetrics& s) { return gib(s.reserved); });
    now.dashed = true;
    if (!now.points.empty()) plot.series.push_back(std::move(now));
  }
  return plot;
}

// Stacked, so each run has its own.
Plot split_plot(const Run& run, bool several) {
  struct Part {
    const char* label;
    double launch::StepSplit::*milliseconds;
  };
  using Split = launch::StepSplit;
  Plot plot{.title = several ? "Where a step's time goes: " + run.name : "Where a step's time goes",
            .x_axis = kSteps,
            .y_axis = "time of rank 0 (ms)",
            .series = {}};
  std::size_t color = 0;
  for (const Part& part :
       {Part{"compute", &Split::compute}, Part{"exposed communication", &Split::exposed},
        Part{"optimizer", &Split::optimizer}, Part{"data", &Split::data}, Part{"host", &Split::host}}) {
    Series series{.label = part.label, .color = color++, .points = {}, .kind = Series::Kind::area};
    for (const StepMetrics& step : run.metrics.steps)
      if (step.split)
        series.points.push_back({static_cast<double>(step.split->step), (*step.split).*part.milliseconds});
    if (!series.points.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot checkpoint_plot(const std::vector<Run>& runs) {
  Plot plot{.title = "Checkpoints", .x_axis = kSteps, .y_axis = "start to commit (s)", .series = {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Series saves{.label = runs[i].name, .color = i, .points = {}, .kind = Series::Kind::dots};
    for (const auto& save : runs[i].metrics.checkpoints)
      saves.points.push_back({static_cast<double>(save.step), save.seconds});
    if (!saves.points.empty()) plot.series.push_back(std::move(saves));
  }
  return plot;
}

}  // namespace

std::vector<Plot> plots_of(const std::vector<Run>& runs) {
  std::vector<Plot> plots{
      loss_plot(runs),
      compared(runs, "Rate", "all ranks (samples/s)", [](const StepMetrics& s) { return s.samples_per_second; }),
      compared(runs, "Rate in tokens", "all ranks (tokens/s)",
               [](const StepMetrics& s) { return or_nothing(s.tokens_per_second); }),
      compared(runs, "Model FLOP/s utilisation", "share of the peak (%)",
               [](const StepMetrics& s) { return 100 * or_nothing(s.mfu); }),
      memory_plot(runs)};
  for (const Run& run : runs) plots.push_back(split_plot(run, runs.size() > 1));
  plots.push_back(checkpoint_plot(runs));
  plots.push_back(compared(runs, "Gradient norm", "2-norm before clipping (no unit)",
                           [](const StepMetrics& s) { return or_nothing(s.grad_norm); }));
  plots.push_back(
      compared(runs, "Learning rate", "learning rate (no unit)", [](const StepMetrics& s) { return s.learning_rate; }));
  std::erase_if(plots, [](const Plot& plot) { return plot.series.empty(); });
  return plots;
}

}  // namespace shoal::report
