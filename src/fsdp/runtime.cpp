#include "fsdp/runtime.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/activity.h"
#include "core/check.h"
#include "core/logging.h"

namespace shoal::fsdp {

using torch_internals::InterceptScope;
using torch_internals::NoInterceptScope;

Runtime::Runtime(comm::DeviceMesh& mesh, const FullyShardOptions& options, at::Device device)
    : mesh_(&mesh),
      options_(options),
      buffers_(device),
      order_(mesh.world(), unit_names_),
      schedule_(units_, order_, mesh, options),
      recompute_(make_recompute(options.activation_checkpoint, device)),
      trace_(make_unit_trace(options.trace, mesh, device)),
      offload_(make_saved_offload(options.activation_offload, device)),
      replica_check_(mesh, units_, options.check_replicas_at_start, options.check_replicas_every) {
  if (recompute_ && offload_) recompute_->keep_inputs_by(*offload_);
  buffers_.copies().set_trace(trace_.get());
}

Runtime::~Runtime() = default;

void Runtime::add_unit(const UnitMembers& planned, const InitialValues& initial_values) {
  auto unit = std::make_unique<Unit>(planned.fqn, static_cast<int>(units_.size()), planned.recomputable);
  for (auto& members : flats_of(planned.parameters)) {
    const FlatContext context{*mesh_, buffers_, options_, initial_values};
    unit->flats().push_back(std::make_unique<FlatParameter>(*this, *unit, std::move(members), context));
    FlatParameter& flat = *unit->flats().back();
    if (!flat.trained()) continue;
    for (std::size_t i = 0; i < flat.parameters().size(); ++i)
      hooks_.push_back(
          torch_internals::on_gradient(flat.parameters()[i].tensor, [this, &flat, i] { gradient_arrived(flat, i); }));
  }
  unit_names_.push_back(unit->name());
  if (recompute_) recompute_->add_unit(*unit);
  units_.push_back(std::move(unit));
}

std::vector<UnitSizes> Runtime::unit_sizes() const {
  std::vector<UnitSizes> units;
  for (const auto& unit : units_) {
    units.push_back({.fqn = unit->fqn(), .recomputable = unit->recomputable()});
    for (const auto& flat : unit->flats()) units.back().flats.push_back(flat->sizes());
  }
  return units;
}

void Runtime::prepare() {
  activity::name_units(unit_names_);
  BufferPlans plans = plan_buffers(unit_sizes(), options_);
  buffers_.reserve(units_, plans, *mesh_);
  in_flight_ = std::move(plans.in_flight);
}

void Runtime::set_requires_gradient_sync(bool sync) {
  SHOAL_CHECK(!running_, InternalError, "set_requires_gradient_sync() inside run()");
  SHOAL_CHECK(
      sync || !options_.deterministic, OptionError,
      "--deterministic needs gradients that are reduced in every micro-step: sums that a rank keeps are added up "
      "in an order that depends on the number of ranks; take --accumulate-mode reduce");
  sync_ = sync;
}

std::int64_t Runtime::unsynced_gradient_bytes() const {
  std::int64_t bytes = 0;
  for_each_flat([&](const FlatParameter& flat) { bytes += flat.trained() ? flat.gradients()->whole_bytes() : 0; });
  return bytes;
}

// Where all parameters are always whole there is nothing to do for an operator.
bool Runtime::intercepts() const {
  bool comes_and_goes = false;
  for_each_flat([&](const FlatParameter& flat) { comes_and_goes = comes_and_goes || !flat.permanent(); });
  return comes_and_goes;
}

// Passes of one kind are expected to use the same units, and the same memory, in the same order.
int Runtime::kind_of_run() const {
  enum { evaluation, training, keeping, reducing_kept };
  if (!at::GradMode::is_enabled()) return evaluation;
  if (!sync_) return keeping;
  const bool kept = std::any_of(units_.begin(), units_.end(), [](const auto& unit) { return unit->keeps_gradients(); });
  return kept ? reducing_kept : training;
}

void Runtime::run(const std::function<void()>& body) {
  SHOAL_CHECK(!running_, InternalError, "FullyShardedModule::run() inside run()");
  SHOAL_CHECK(!broken_, CommunicationError,
              "the module cannot be run any more: communication with the other ranks failed before");
  running_ = true;
  failure_ = nullptr;
  forward_ = at::GradMode::is_enabled() ? activity::Operation::forward : activity::Operation::validation;
  activity::enter(forward_);
  try {
    if (at::GradMode::is_enabled()) replica_check_.before_run();
    if (trace_) trace_->begin_run();
    order_.begin(kind_of_run());
    for (const auto& unit : units_)
      if (!sync_) unit->keep_gradients();
    for_each_flat([](const FlatParameter& flat) {
      if (flat.permanent()) flat.update().finish();  // its parameters are read without being asked for
    });
    {
      std::optional<InterceptScope> intercept;
      if (intercepts()) intercept.emplace();
      const RecomputeScope recompute(at::GradMode::is_enabled() ? recompute_.get() : nullptr);
      const OffloadScope offload(at::GradMode::is_enabled() ? offload_.get() : nullptr, recompute_.get());
      run_body(body);
    }
    order_.finish();
    schedule_.reshard_all();
    if (trace_) trace_->end_run();
  } catch (const CommunicationError&) {
    abort_run(true);
    throw;
  } catch (const activity::Leaving&) {
    abort_run(true);
    throw;
  } catch (...) {
    abort_run(false);
    throw;
  }
  running_ = false;
}

// What was thrown for an operator comes out as it was: on its way through TorchScript's interpreter it becomes a text.
void Runtime::run_body(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    throw;
  }
}

// Called for each operator with tagged arguments: the common case, one unit that is active already, is two compares.
void Runtime::before_operator(std::span<torch_internals::StorageUser* const> users) {
  try {
    ++operator_;
    enter(static_cast<FlatParameter*>(users.back())->unit());
    for (auto* user : users) static_cast<FlatParameter*>(user)->unit().last_operator = operator_;
    const Unit& last = static_cast<FlatParameter*>(users.back())->unit();
    if (trace_) trace_->leave_for(last);
    for (auto* user : users) use(static_cast<FlatParameter*>(user)->unit());
    if (trace_) trace_->enter(last);
    if (recompute_) recompute_->before_operator(users);
    if (offload_) offload_->before_operator(users);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

// For those who ask where this rank is.
void Runtime::enter(const Unit& unit) const {
  activity::enter(torch_internals::backward_pass() >= 0 ? activity::Operation::backward : forward_, unit.index());
}

void Runtime::use(Unit& unit) {
  if (&unit == schedule_.active() || (unit.is_root() && unit.unsharded())) return;
  SHOAL_CHECK(running_, OptionError,
              "FSDP unit '{}' is used inside the run() of another module: call it in its own FullyShardedModule::run()",
              unit.name());
  const NoInterceptScope quiet;
  notice_backward();
  order_.happened({UnitEvent::use, unit.index()});
  schedule_.use(unit, {backward_pass_ >= 0, operator_});
}

// A backward pass has no beginning that can be hooked: it is noticed at its first operator or gradient.
void Runtime::notice_backward() {
  const int pass = torch_internals::backward_pass();
  if (pass < 0 || pass == backward_pass_) return;
  backward_pass_ = pass;
  if (trace_) trace_->begin_backward();
  for (const auto& unit : units_) {
    unit->expect_gradients();
    if (!sync_) unit->keep_gradients();  // again: an offloaded step that ended in this run() has dropped what was kept
  }
  torch_internals::at_end_of_backward([this] { end_backward(); });
}

void Runtime::before_gradient() {
  const NoInterceptScope quiet;
  if (running_) notice_backward();
}

void Runtime::gradient_arrived(FlatParameter& flat, std::size_t index) {
  SHOAL_CHECK(running_, OptionError,
              "backward() was called outside FullyShardedModule::run() (parameter '{}' got a gradient)",
              flat.parameters()[index].fqn);
  const NoInterceptScope quiet;
  notice_backward();
  enter(flat.unit());
  flat.collect_gradient(index);
  if (!flat.unit().gradients_missing()) finish_backward_of(flat.unit());
}

void Runtime::start_reduction(Unit& unit) {
  while (reductions_.size() >= in_flight_[static_cast<std::size_t>(unit.index())]) finish_oldest_reduction();
  activity::enter(activity::Operation::reduce, unit.index());
  mesh_->reduce().set_activity(unit.reduce_label());
  unit.start_reduce();
  reductions_.push_back(&unit);
}

// Ranks agree on when that is also where nothing is sent: what they have in memory must be alike.
void Runtime::finish_backward_of(Unit& unit) {
  unit.finished = true;
  order_.happened({UnitEvent::reduce, unit.index(), unit.gradient_place()});
  if (sync_) start_reduction(unit);
  schedule_.finish(unit);
}

void Runtime::finish_oldest_reduction() {
  Unit& unit = *reductions_.front();
  reductions_.pop_front();
  activity::enter(activity::Operation::reduce, unit.index());
  mesh_->replicate().set_activity(unit.all_reduce_label());
  if (trace_) trace_->pause();
  unit.finish_reduce(all_reduce_);
  if (replica_sum_of_) replica_sum_of_->finish_replica_sum();
  replica_sum_of_ = &unit;
  if (trace_) trace_->resume();
}

// Units with unused parameters are reduced now, in the order of the units, with what earlier passes kept and zeros for
// what never came. Which ranks hold some of their gradients, and since when, may differ, so these are sent from memory
// that need not be the same on all of them.
void Runtime::end_backward() {
  const NoInterceptScope quiet;
  for (const auto& unit : units_)
    if (!unit->finished) {
      if (sync_) unit->leave_gradient_place();
      finish_backward_of(*unit);
    }
  if (trace_) trace_->end_backward();
  while (!reductions_.empty()) finish_oldest_reduction();
  if (replica_sum_of_) std::exchange(replica_sum_of_, nullptr)->finish_replica_sum();
  backward_pass_ = -1;
}

void Runtime::abort_run(bool peers_lost) noexcept {
  running_ = false;
  backward_pass_ = -1;
  order_.forget();
  broken_ = broken_ || peers_lost;
  if (peers_lost) return;  // buffers may still be written by messages on their way
  try {
    reductions_.clear();  // drop_gradients() waits for what is on its way
    replica_sum_of_ = nullptr;
    schedule_.reshard_all();
    drop_gradients();
  } catch (const std::exception& error) {
    broken_ = true;
    log::error("after an exception in a step: {}", error.what());
  }
}

void Runtime::summon_full_params(const std::function<void()>& body, bool write_back) {
  SHOAL_CHECK(!running_, InternalError, "summon_full_params() inside run()");
  for (const auto& unit : units_) unit->unshard();
  try {
    body();
  } catch (...) {
    schedule_.reshard_all();
    throw;
  }
  if (write_back) for_each_flat([](FlatParameter& flat) { flat.keep_shard_of_unsharded(); });
  schedule_.reshard_all();
}

void Runtime::start_replica_sums() {
  for (const auto& unit : units_) {
    mesh_->replicate().set_activity(unit->all_reduce_label());
    unit->start_replica_sum();
  }
}

void Runtime::drop_gradients() {
  for_each_flat([](FlatParameter& flat) {
    flat.drop_gradients();
    for (const ModuleParameter& p : flat.parameters()) p.tensor.mutable_grad().reset();
  });
}

}  // namespace shoal::fsdp
