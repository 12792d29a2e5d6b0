#include "fsdp/unit_trace.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "fsdp/torch_internals.h"
#include "fsdp/unit.h"

namespace shoal::fsdp {
namespace {

Trace::Lane lane_of(const std::string& collective) {
  if (collective == "all_gather") return Trace::Lane::all_gather;
  if (collective == "all_reduce") return Trace::Lane::all_reduce;
  if (collective == "reduce_scatter" || collective == "all_to_all") return Trace::Lane::reduce;
  return Trace::Lane::copy;
}

// What the group is doing for a unit names its collective, but not those that others call in the meantime.
std::string name_of(const comm::CollectiveRecord& record) {
  const bool for_unit = record.group == "replicate" || record.collective != "all_reduce";
  if (!for_unit || record.activity.empty()) return fmt::format("{} ({})", record.collective, record.group);
  constexpr std::string_view kArticle = "the ";
  const std::string_view activity = record.activity;
  return std::string(activity.substr(activity.starts_with(kArticle) ? kArticle.size() : 0));
}

}  // namespace

class UnitTrace::Observer final : public comm::CollectiveObserver {
 public:
  explicit Observer(Trace& trace) : trace_(&trace) {}
  double now() const override { return trace_ ? trace_->now() : 0; }
  void collective(const comm::CollectiveRecord& record) override {
    if (trace_) trace_->add_late(lane_of(record.collective), name_of(record), record.start, record.end, record.bytes);
  }

  void forget_trace() { trace_ = nullptr; }

 private:
  Trace* trace_;
};

UnitTrace::UnitTrace(Trace& trace, comm::DeviceMesh& mesh, c10::Device device)
    : trace_(&trace), mesh_(&mesh), clock_(trace, device) {}

// The groups go on to report, to nobody: after a failure, waiting for what is under way might never end.
UnitTrace::~UnitTrace() {
  if (observer_) observer_->forget_trace();
}

void UnitTrace::observe(bool on) {
  if (on == (observer_ != nullptr)) return;
  observer_ = on ? std::make_shared<Observer>(*trace_) : nullptr;
  for (comm::ProcessGroup* group : mesh_->device_groups()) group->set_observer(observer_);
}

void UnitTrace::finish() { observe(false); }

void UnitTrace::begin_run() {
  start_.reset();  // of a run() that an exception ended
  paused_ = false;
  observe(trace_->recording());
  if (!trace_->recording()) return;
  if (const std::int64_t step = trace_->step(); std::exchange(step_, step) != step) clock_.rebase();
  run_start_ = trace_->now();
  move_to({});
}

void UnitTrace::end_run() {
  if (!observer_) return;
  close();
  trace_->add(Trace::Lane::host, "run", run_start_, trace_->now());
}

void UnitTrace::leave_for(const Unit& unit) {
  if (start_ && place_ != Place{&unit, torch_internals::backward_pass() >= 0}) close();
}

void UnitTrace::enter(const Unit& unit) {
  if (observer_ && !start_) move_to({&unit, torch_internals::backward_pass() >= 0});
}

// Where no operator is intercepted this is all that is known of the pass.
void UnitTrace::begin_backward() {
  if (start_ && place_ == Place{}) {
    close();
    move_to({nullptr, true});
  }
}

void UnitTrace::end_backward() { close(); }

void UnitTrace::pause() {
  paused_ = start_ != nullptr;
  close();
}

void UnitTrace::resume() {
  if (std::exchange(paused_, false)) move_to(place_);
}

void UnitTrace::move_to(Place place) {
  place_ = place;
  start_ = mark();
}

void UnitTrace::close() {
  if (!start_) return;
  const char* const pass = place_.backward ? "backward" : "forward";
  add(Trace::Lane::compute, place_.unit ? fmt::format("{} {}", pass, place_.unit->name()) : pass,
      std::exchange(start_, nullptr));
}

std::shared_ptr<Moment> UnitTrace::mark() { return trace_->recording() ? clock_.mark() : nullptr; }

void UnitTrace::add(Trace::Lane lane, std::string name, std::shared_ptr<Moment> start, std::int64_t bytes) {
  if (start) trace_->add(lane, std::move(name), std::move(start), clock_.mark(), bytes);
}

std::unique_ptr<UnitTrace> make_unit_trace(Trace* trace, comm::DeviceMesh& mesh, c10::Device device) {
  return trace ? std::make_unique<UnitTrace>(*trace, mesh, device) : nullptr;
}

}  // namespace shoal::fsdp
