#include "fsdp/offload_in_flight.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "fsdp/buffer_plan.h"
#include "fsdp/offload_copies.h"

namespace shoal::fsdp {
namespace {

// The shard of its gradient as it is summed: of the masters' type, or of half its size. 0 where it is not offloaded.
std::int64_t summed_bytes(const FlatSizes& flat, const FullyShardOptions& options) {
  if (!flat.trained || !flat.master_on_host()) return 0;
  const auto type = options.mixed_precision.reduce_dtype;
  return type && c10::elementSize(*type) < sizeof(float) ? flat.master / 2 : flat.master;
}

}  // namespace

// The device's memory while one backward pass follows the other.
class OffloadInFlight::Flight {
 public:
  explicit Flight(const OffloadInFlight& plan) : plan_(&plan) {}

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
    copied_.push_back(plan_->units_[unit].copied());
    if (copied_.size() <= plan_->copies_) return;
    live_ -= copied_.front();
    copied_.pop_front();
  }

  void end() {
    while (!reductions_.empty()) finish_oldest();
    if (summed_) copy(*summed_);
    summed_.reset();
  }

  const OffloadInFlight* plan_;
  std::int64_t live_ = 0, peak_ = 0;
  std::deque<std::size_t> reductions_;
  std::optional<std::size_t> summed_;  // whose sum over the replicas is under way
  std::deque<std::int64_t> copied_;
};

OffloadInFlight::OffloadInFlight(const std::vector<UnitSizes>& units, const MeshShape& mesh,
                                 const FullyShardOptions& options)
    : units_(units.size()), replicas_(mesh.replicate > 1), copies_(options.offload_on_cpu ? 0 : kCopiesInFlight) {
  const std::vector<std::size_t> in_flight = plan_buffers(units, options).in_flight;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].is_root()) root_ = u;
    Sizes& sizes = units_[u];
    sizes.in_flight = in_flight[u];
    std::int64_t masters = 0;
    for (const FlatSizes& flat : units[u].flats) {
      const std::int64_t summed = summed_bytes(flat, options);
      // The collective gives shards, or sends what is added up here.
      std::int64_t& of_shards = flat.received > 0 ? sizes.from_reduced : sizes.from_complete;
      (mesh.shard > 1 ? of_shards : sizes.from_first) += summed;
      if (summed > 0) masters += flat.master;
      // In another type than the masters' a result is made beside them, and a gradient arrives beside the sum.
      if (flat.offload == Offload::optimizer && flat.compute != flat.master) host_ += flat.compute;
      if (summed < flat.master) host_ += summed;
    }
    if (replicas_ && masters != sizes.reduced()) sizes.replicated = masters;
  }
}

std::vector<OffloadInFlight::Moment> OffloadInFlight::moments(const std::vector<GradientEvent>& events) const {
  Flight flight(*this);
  std::vector<Moment> moments;
  for (const GradientEvent& event : events) flight.handle(event);
  for (const GradientEvent& event : events) moments.push_back(flight.handle(event));
  return moments;
}

std::int64_t OffloadInFlight::device() const {
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
