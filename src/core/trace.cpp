#include "core/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace shoal {

Trace::Trace(std::int64_t first_step, std::int64_t last_step) : first_step_(first_step), last_step_(last_step) {}

double Trace::now() const { return std::chrono::duration<double, std::micro>(Clock::now() - start_).count(); }

void Trace::begin_step(std::int64_t step, bool also) {
  const std::lock_guard lock(mutex_);
  end_step_locked();
  if (!is_wanted(step) && !also) return;
  step_ = step;
  step_start_ = now();
  recording_ = true;
}

void Trace::end_step() {
  const std::lock_guard lock(mutex_);
  end_step_locked();
}

void Trace::end_step_locked() {
  if (!recording_) return;
  spans_.push_back({Lane::host, fmt::format("step {}", step_), step_, step_start_, now()});
  recording_ = false;
}

std::int64_t Trace::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

void Trace::add(Lane lane, std::string name, double start, double end, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (recording_) spans_.push_back({lane, std::move(name), step_, start, end, bytes});
}

void Trace::add(Lane lane, std::string name, std::shared_ptr<Moment> start, std::shared_ptr<Moment> end,
                std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!recording_) return;
  pending_.push_back({{lane, std::move(name), step_, 0, 0, bytes}, std::move(start), std::move(end)});
}

void Trace::add_late(Lane lane, std::string name, double start, double end, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  late_.push_back({lane, std::move(name), 0, start, end, bytes});
}

void Trace::resolve_pending() {
  for (Pending& pending : pending_) {
    pending.span.start = pending.start->time();
    pending.span.end = pending.end->time();
    spans_.push_back(std::move(pending.span));
  }
  pending_.clear();
}

void Trace::place_late() {
  std::map<double, std::int64_t> steps = taken_;  // by the first start of a span of the device
  std::map<std::int64_t, double> starts;
  for (const Span& span : spans_) {
    if (span.lane == Lane::host) continue;
    const auto [known, is_new] = starts.emplace(span.step, span.start);
    if (!is_new) known->second = std::min(known->second, span.start);
  }
  for (const auto& [step, start] : starts) steps.emplace(start, step);
  for (Span& span : late_) {
    const auto after = steps.upper_bound(span.start);
    if (after == steps.begin()) continue;
    span.step = std::prev(after)->second;
    if (taken_.contains(std::prev(after)->first)) continue;
    spans_.push_back(std::move(span));
  }
  late_.clear();
}

std::vector<Trace::Span> Trace::spans() {
  const std::lock_guard lock(mutex_);
  resolve_pending();
  place_late();
  std::stable_sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
  return spans_;
}

std::vector<Trace::Span> Trace::take(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  resolve_pending();
  place_late();
  std::vector<Span> taken;
  std::copy_if(spans_.begin(), spans_.end(), std::back_inserter(taken),
               [step](const Span& span) { return span.step == step; });
  if (is_wanted(step)) return taken;
  std::erase_if(spans_, [step](const Span& span) { return span.step == step; });
  double start = std::numeric_limits<double>::infinity();
  for (const Span& span : taken)
    if (span.lane != Lane::host) start = std::min(start, span.start);
  if (start < std::numeric_limits<double>::infinity())
    taken_ = {{start, step}};  // what was under way in older ones has been heard of
  return taken;
}

const char* name_of(Trace::Lane lane) {
  switch (lane) {
    case Trace::Lane::host: return "host";
    case Trace::Lane::compute: return "compute";
    case Trace::Lane::all_gather: return "all-gather";
    case Trace::Lane::reduce: return "reduce-scatter";
    case Trace::Lane::all_reduce: return "all-reduce";
    case Trace::Lane::copy: return "copy";
    case Trace::Lane::optimizer: return "optimizer";
  }
  return "";
}

}  // namespace shoal
