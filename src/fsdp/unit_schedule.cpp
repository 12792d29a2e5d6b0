#include "fsdp/unit_schedule.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/check.h"
#include "fsdp/unit_sizes.h"

namespace shoal::fsdp {
namespace {

void check(const FullyShardOptions& options, const comm::DeviceMesh& mesh) {
  SHOAL_CHECK(options.forward_prefetch >= 0 && options.backward_prefetch >= 0 && options.limit_all_gathers >= 0,
              OptionError, "--forward-prefetch, --backward-prefetch and --limit-all-gathers cannot be negative");
  SHOAL_CHECK(options.limit_all_gathers == 0 || options.reshard_after_forward, OptionError,
              "--limit-all-gathers {} has no meaning under a strategy that keeps all units whole from forward to "
              "backward; take --strategy full_shard or hybrid_shard",
              options.limit_all_gathers);
  SHOAL_CHECK(mesh.regather() == nullptr || options.reshard_after_forward, OptionError,
              "--reshard-after-forward {} has no meaning under a strategy that keeps all units whole from forward to "
              "backward; take --strategy full_shard or hybrid_shard",
              mesh.regather_size());
}

}  // namespace

UnitSchedule::UnitSchedule(const std::vector<std::unique_ptr<Unit>>& units, const UnitOrder& order,
                           comm::DeviceMesh& mesh, const FullyShardOptions& options)
    : units_(&units),
      order_(&order),
      mesh_(&mesh),
      reshards_after_forward_(options.reshard_after_forward),
      post_(options.backward_prefetch_post),
      forward_depth_(options.forward_prefetch),
      backward_depth_(post_ ? std::min(options.backward_prefetch, 1) : options.backward_prefetch),
      most_whole_(fsdp::most_whole(options)) {
  check(options, mesh);
}

void UnitSchedule::use(Unit& unit, Now now) {
  if (!unit.is_root()) {
    active_ = &unit;
    if (std::find(whole_.begin(), whole_.end(), &unit) == whole_.end()) whole_.push_back(&unit);
    unit.awaited = false;
    reshard_idle(now);  // before anything is gathered: that may need their memory
  }
  name_activity(unit);
  unit.unshard();
  if (!now.backward) return prefetch(forward_depth_);
  if (!post_) prefetch(backward_depth_);
}

bool UnitSchedule::may_reshard(const Unit& unit, Now now) const {
  if (&unit == active_ || unit.awaited || unit.last_operator == now.operator_number) return false;
  if (now.backward) return unit.finished;  // its gradients are still to come from operators that read it
  return reshards_after_forward_;
}

// An idle unit that is the next to be used stays, if there may be so many.
void UnitSchedule::reshard_idle(Now now) {
  const auto upcoming = order_->upcoming();
  const auto next = std::find_if(upcoming.begin(), upcoming.end(),
                                 [](const UnitEvent& event) { return event.kind == UnitEvent::use; });
  const int next_unit = next != upcoming.end() ? next->unit : -1;
  for (std::size_t i = 0; i < whole_.size();) {
    Unit& unit = *whole_[i];
    if (!may_reshard(unit, now) || (unit.index() == next_unit && whole_.size() <= most_whole_)) {
      ++i;
      continue;
    }
    if (now.backward) {
      unit.reshard();
      unit.drop_regather_shards();
    } else if (mesh_->regather() != nullptr && at::GradMode::is_enabled()) {
      unit.reshard_to_regather_group();
    } else {
      unit.reshard();
    }
    whole_.erase(whole_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// For the message of a time-out of whichever group gathers.
void UnitSchedule::name_activity(const Unit& unit) const {
  mesh_->shard().set_activity(unit.unshard_label());
  if (mesh_->regather() != nullptr) mesh_->regather()->set_activity(unit.unshard_label());
}

// The root, which stays whole once it is, does not count.
void UnitSchedule::prefetch(int depth) {
  for (const UnitEvent& event : order_->upcoming()) {
    if (depth == 0 || event.kind == UnitEvent::end) return;
    if (event.kind != UnitEvent::use) continue;
    Unit& unit = *(*units_)[static_cast<std::size_t>(event.unit)];
    if (!unit.is_root()) --depth;
    if (std::find(whole_.begin(), whole_.end(), &unit) != whole_.end()) continue;
    if (!unit.is_root()) {
      if (whole_.size() >= most_whole_) return;
      whole_.push_back(&unit);
      unit.awaited = true;
    }
    name_activity(unit);
    unit.start_unshard();
  }
}

// What could not be gathered ahead while `unit` was whole can be now; with BACKWARD_POST everything is gathered here.
void UnitSchedule::finish(Unit& unit) {
  if (!unit.is_root()) {  // the root is used first and last in backward
    unit.reshard();
    unit.drop_regather_shards();
    unit.awaited = false;
    std::erase(whole_, &unit);
    if (active_ == &unit) active_ = nullptr;
  }
  prefetch(backward_depth_);
}

void UnitSchedule::reshard_all() {
  active_ = nullptr;
  whole_.clear();
  for (const auto& unit : *units_) {
    unit->awaited = false;
    unit->reshard();
    unit->drop_regather_shards();
  }
}

}  // namespace shoal::fsdp
