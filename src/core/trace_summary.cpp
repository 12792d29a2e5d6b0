#include "core/trace_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace shoal {
namespace {

struct Interval {
  double start, end;
};
using Intervals = std::vector<Interval>;

// The same set as intervals that neither touch nor overlap, in order.
Intervals merged(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end(), [](Interval a, Interval b) { return a.start < b.start; });
  Intervals result;
  for (const Interval& next : intervals) {
    if (!result.empty() && next.start <= result.back().end)
      result.back().end = std::max(result.back().end, next.end);
    else
      result.push_back(next);
  }
  return result;
}

double measure(const Intervals& merged) {
  double sum = 0;
  for (const Interval& interval : merged) sum += interval.end - interval.start;
  return sum;
}

// Of what lies in both; both are merged().
double common_measure(const Intervals& a, const Intervals& b) {
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].start, b[j].start));
    (a[i].end < b[j].end ? i : j)++;
  }
  return sum;
}

bool is_collective(Trace::Lane lane) {
  return lane == Trace::Lane::all_gather || lane == Trace::Lane::reduce || lane == Trace::Lane::all_reduce;
}

bool is_compute(Trace::Lane lane) { return lane == Trace::Lane::compute || lane == Trace::Lane::optimizer; }

struct StepIntervals {
  Intervals units, compute, collectives;
};

StepTimes times_of(std::int64_t step, const StepIntervals& intervals) {
  const Intervals compute = merged(intervals.compute), collectives = merged(intervals.collectives);
  Intervals both = compute;
  both.insert(both.end(), collectives.begin(), collectives.end());
  both = merged(both);
  StepTimes times{.step = step, .compute = measure(compute), .collectives = measure(collectives)};
  times.length = both.back().end - both.front().start;
  times.optimizer = times.compute - measure(merged(intervals.units));
  times.exposed = times.collectives - common_measure(compute, collectives);
  return times;
}

}  // namespace

std::vector<StepTimes> step_times(const std::vector<Trace::Span>& spans) {
  std::map<std::int64_t, StepIntervals> steps;
  for (const Trace::Span& span : spans) {
    if (span.lane == Trace::Lane::compute) steps[span.step].units.push_back({span.start, span.end});
    if (is_compute(span.lane)) steps[span.step].compute.push_back({span.start, span.end});
    if (is_collective(span.lane)) steps[span.step].collectives.push_back({span.start, span.end});
  }
  std::vector<StepTimes> times;
  for (const auto& [step, intervals] : steps) times.push_back(times_of(step, intervals));
  return times;
}

std::string text_of(const std::vector<StepTimes>& steps) {
  if (steps.empty()) return "no step was recorded";
  StepTimes mean;
  for (const StepTimes& step : steps) {
    mean.length += step.length;
    mean.compute += step.compute;
    mean.collectives += step.collectives;
    mean.exposed += step.exposed;
  }
  const double to_ms = 1e-3 / static_cast<double>(steps.size());
  const double share = mean.length > 0 ? 100 * mean.exposed / mean.length : 0;
  return fmt::format(
      "exposed communication {:.1f} ms of a step's {:.1f} ms ({:.1f} %): compute {:.1f} ms, collectives {:.1f} ms; "
      "means of {} steps",
      mean.exposed * to_ms, mean.length * to_ms, share, mean.compute * to_ms, mean.collectives * to_ms, steps.size());
}

}  // namespace shoal
