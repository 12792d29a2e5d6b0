#include "fsdp/gradients_in_flight.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "fsdp/buffer_plan.h"
#include "fsdp/offload_copies.h"

namespace shoal::fsdp {
namespace {

// The shard of its gradient as ranks sum it: of the masters' type, or of half its size.
std::int64_t summed_bytes(const FlatSizes& flat, const FullyShardOptions& options) {
  if (!flat.trained) return 0;
  const auto type = options.mixed_precision.reduce_dtype;
  return type && c10::elementSize(*type) < sizeof(float) ? flat.master / 2 : flat.master;
}

bool is_offloaded(const std::vector<UnitSizes>& units) {
  return std::any_of(units.begin(), units.end(), [](const UnitSizes& unit) {
    return std::any_of(unit.flats.begin(), unit.flats.end(),
                       [](const FlatSizes& flat) { return flat.trained && flat.master_on_host(); });
  });
}

// What the host has of it beside master, gradient and states.
std::int64_t host_bytes(const FlatSizes& flat, std::int64_t summed, Accumulation accumulation) {
  if (!flat.master_on_host()) return 0;
  std::int64_t bytes = 0;
  // In another type than the masters' a result is made beside them, and a gradient arrives beside the sum; so do those
  // of several micro-steps.
  if (flat.offload == Offload::optimizer && flat.compute != flat.master) bytes += flat.compute;
  const bool adds_up = accumulation == Accumulation::defer || accumulation == Accumulation::reduce;
  if (flat.trained && (adds_up || summed < flat.master)) bytes += summed;
  return bytes;
}

}  // namespace

// The device's memory while one backward pass follows the other.
class GradientsInFlight::Flight {
 public:
  explicit Flight(const GradientsInFlight& plan) : plan_(&plan) {}

  Moment handle(const GradientEvent& event) {
    const std::int64_t before = live_;
    peak_ = live_;
    if (event.kind == GradientEvent::Kind::first) take(plan_->units_[event.unit].from_first);
    if (event.kind == GradientEvent::Kind::complete) complete(event.unit);
    if (event.kind == GradientEvent::Kind::end) end();
    return {before, peak_};
  }

 private:
  void take(std::int64_t bytes) { peak_ = std::max(peak_, live_ += bytes); }

  void complete(std::size_t unit) {
    while (reductions_.size() >= plan_->units_[unit].in_flight) finish_oldest();
    take(plan_->units_[unit].from_complete);
    reductions_.push_back(unit);
  }

  void finish_oldest() {
    const std::size_t unit = reductions_.front();
    reductions_.pop_front();
    const Sizes& sizes = plan_->units_[unit];
    take(sizes.from_reduced);
    if (!plan_->replicas_) return copy(unit);
    if (sizes.replicated > 0) {
      take(sizes.replicated);
      live_ -= sizes.reduced();
    }
    if (summed_) copy(*summed_);
    summed_ = unit;
  }

  void copy(std::size_t unit) {
    copied_.push_back(plan_->units_[unit].kept());
    if (copied_.size() <= plan_->copies_) return;
    live_ -= copied_.front();
    copied_.pop_front();
  }

  void end() {
    while (!reductions_.empty()) finish_oldest();
    if (summed_) copy(*summed_);
    summed_.reset();
  }

  const GradientsInFlight* plan_;
  std::int64_t live_ = 0, peak_ = 0;
  std::deque<std::size_t> reductions_;
  std::optional<std::size_t> summed_;  // whose sum over the replicas is under way
  std::deque<std::int64_t> copied_;
};

// Whole ones are counted elsewhere: until they are gone there are shards of some beside them, or copies of last time's.
void GradientsInFlight::add_kept(const MeshShape& mesh, std::int64_t summed, Sizes& sizes) const {
  if (mesh.shard > 1) sizes.from_complete += summed;
  if (mesh.shard == 1 && copies_ > 0) sizes.from_reduced += summed;
}

// The collective gives shards, or sends what is added up here: right into the sum where that has the same type.
void GradientsInFlight::add_passing(const MeshShape& mesh, const FlatSizes& flat, std::int64_t summed,
                                    Sizes& sizes) const {
  const bool added_right_away = flat.received > 0 && !flat.master_on_host() && !replicas_ && summed == flat.master;
  if (mesh.shard == 1)
    sizes.from_first += summed;
  else if (!added_right_away)
    (flat.received > 0 ? sizes.from_reduced : sizes.from_complete) += summed;
}

GradientsInFlight::GradientsInFlight(const std::vector<UnitSizes>& units, const MeshShape& mesh,
                                     const FullyShardOptions& options, Accumulation accumulation)
    : units_(units.size()) {
  const bool offloaded = is_offloaded(units), keeps_whole = accumulation == Accumulation::keep;
  // A whole gradient that is gone leaves more room than a sum over the replicas takes.
  replicas_ = mesh.replicate > 1 && !keeps_whole && (offloaded || accumulation == Accumulation::reduce);
  copies_ = offloaded && !options.offload_on_cpu ? kCopiesInFlight : 0;
  const std::vector<std::size_t> in_flight = plan_buffers(units, options).in_flight;
  // The shards of one micro-step without offload are the sum.
  const bool passes = offloaded || accumulation != Accumulation::none;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].is_root()) root_ = u;
    Sizes& sizes = units_[u];
    sizes.in_flight = in_flight[u];
    std::int64_t masters = 0;
    for (const FlatSizes& flat : units[u].flats) {
      const std::int64_t summed = summed_bytes(flat, options);
      host_ += host_bytes(flat, summed, accumulation);
      if (!passes || summed == 0) continue;
      masters += flat.master;
      if (keeps_whole)
        add_kept(mesh, summed, sizes);
      else
        add_passing(mesh, flat, summed, sizes);
    }
    if (replicas_ && masters != sizes.reduced()) sizes.replicated = masters;
  }
}

std::vector<GradientsInFlight::Moment> GradientsInFlight::moments(const std::vector<GradientEvent>& events) const {
  Flight flight(*this);
  std::vector<Moment> moments;
  for (const GradientEvent& event : events) flight.handle(event);
  for (const GradientEvent& event : events) moments.push_back(flight.handle(event));
  return moments;
}

std::int64_t GradientsInFlight::device() const {
  using Kind = GradientEvent::Kind;
  std::vector<GradientEvent> events;
  if (!units_.empty()) events.push_back({Kind::first, root_});
  for (std::size_t u = units_.size(); u-- > 0;)
    if (u != root_) events.insert(events.end(), {{Kind::first, u}, {Kind::complete, u}});
  if (!units_.empty()) events.push_back({Kind::complete, root_});
  events.push_back({Kind::end, 0});
  std::int64_t most = 0;
  for (const Moment& moment : moments(events)) most = std::max(most, moment.during);
  return most;
}

}  // namespace shoal::fsdp
