#include "fsdp/runtime.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/logging.h"

namespace shoal::fsdp {

using torch_internals::InterceptScope;
using torch_internals::NoInterceptScope;

namespace {

// One reduction runs while the next unit's gradients are computed; more would only hold more whole gradients.
constexpr std::size_t kReductionsInFlight = 2;

}  // namespace

Runtime::Runtime(comm::DeviceMesh& mesh, const FullyShardOptions& options, at::Device device)
    : mesh_(&mesh),
      options_(options),
      pool_(device),
      host_pool_(at::kCPU, !device.is_cpu()),
      order_(mesh.world(), unit_names_),
      recompute_(make_recompute(options.activation_checkpoint, device)),
      trace_(make_unit_trace(options.trace, mesh, device)) {}

Runtime::~Runtime() = default;

void Runtime::add_unit(const std::string& fqn, const std::vector<ModuleParameter>& parameters,
                       const InitialValues& initial_values) {
  auto unit = std::make_unique<Unit>(fqn, static_cast<int>(units_.size()));
  std::map<std::pair<at::ScalarType, bool>, std::vector<ModuleParameter>> kinds;
  for (const ModuleParameter& p : parameters) kinds[{p.tensor.scalar_type(), p.tensor.requires_grad()}].push_back(p);
  for (auto& [kind, members] : kinds) {
    const FlatContext context{*mesh_, pool_, host_pool_, options_, initial_values};
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

void Runtime::run(const std::function<void()>& body) {
  SHOAL_CHECK(!running_, InternalError, "FullyShardedModule::run() inside run()");
  SHOAL_CHECK(!broken_, CommunicationError,
              "the module cannot be run any more: communication with the other ranks failed before");
  running_ = true;
  failure_ = nullptr;
  try {
    if (trace_) trace_->begin_run();
    order_.begin(at::GradMode::is_enabled() ? (sync_ ? 1 : 2) : 0);
    {
      std::optional<InterceptScope> intercept;
      if (intercepts()) intercept.emplace();
      const RecomputeScope recompute(at::GradMode::is_enabled() ? recompute_.get() : nullptr);
      run_body(body);
    }
    order_.finish();
    reshard_all();
    if (trace_) trace_->end_run();
  } catch (const CommunicationError&) {
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
    for (auto* user : users) static_cast<FlatParameter*>(user)->unit().last_operator = operator_;
    const Unit& last = static_cast<FlatParameter*>(users.back())->unit();
    if (trace_) trace_->leave_for(last);
    for (auto* user : users) use(static_cast<FlatParameter*>(user)->unit());
    if (trace_) trace_->enter(last);
    if (recompute_) recompute_->before_operator(users);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void Runtime::use(Unit& unit) {
  if (&unit == active_ || (unit.is_root() && unit.unsharded())) return;
  SHOAL_CHECK(running_, OptionError,
              "FSDP unit '{}' is used inside the run() of another module: call it in its own FullyShardedModule::run()",
              unit.name());
  const NoInterceptScope quiet;
  notice_backward();
  order_.happened({UnitEvent::use, unit.index()});
  mesh_->shard().set_activity(unit.unshard_label());
  unit.unshard();
  if (!unit.is_root()) {
    active_ = &unit;
    if (std::find(live_.begin(), live_.end(), &unit) == live_.end()) live_.push_back(&unit);
    reshard_idle();
  }
  prefetch();
}

bool Runtime::may_reshard(const Unit& unit) const {
  if (&unit == active_ || unit.last_operator == operator_) return false;  // the operator about to run may need it
  if (backward_pass_ >= 0) return unit.finished;  // its gradients are still to come from operators that read it
  return options_.reshard_after_forward;
}

void Runtime::reshard_idle() {
  const auto next = order_.upcoming();
  const int next_unit = !next.empty() && next[0].kind == UnitEvent::use ? next[0].unit : -1;
  std::erase_if(live_, [&](Unit* unit) {
    if (!may_reshard(*unit) || unit->index() == next_unit) return false;
    unit->reshard();
    return true;
  });
}

void Runtime::prefetch() {
  int depth = backward_pass_ >= 0 ? options_.backward_prefetch : options_.forward_prefetch;
  for (const UnitEvent& event : order_.upcoming()) {
    if (depth == 0 || event.kind == UnitEvent::end) return;
    if (event.kind != UnitEvent::use) continue;
    Unit& unit = *units_[static_cast<std::size_t>(event.unit)];
    if (!unit.unsharded()) {
      mesh_->shard().set_activity(unit.unshard_label());
      unit.start_unshard();
    }
    --depth;
  }
}

// A backward pass has no beginning that can be hooked: it is noticed at its first operator or gradient.
void Runtime::notice_backward() {
  const int pass = torch_internals::backward_pass();
  if (pass < 0 || pass == backward_pass_) return;
  backward_pass_ = pass;
  if (trace_) trace_->begin_backward();
  for (const auto& unit : units_) unit->expect_gradients();
  torch_internals::at_end_of_backward([this] { end_backward(); });
}

void Runtime::gradient_arrived(FlatParameter& flat, std::size_t index) {
  SHOAL_CHECK(running_, OptionError,
              "backward() was called outside FullyShardedModule::run() (parameter '{}' got a gradient)",
              flat.parameters()[index].fqn);
  const NoInterceptScope quiet;
  notice_backward();
  flat.collect_gradient(index);
  if (!flat.unit().gradients_missing()) finish_backward_of(flat.unit());
}

void Runtime::reduce(Unit& unit) {
  order_.happened({UnitEvent::reduce, unit.index()});
  mesh_->reduce().set_activity(unit.reduce_label());
  unit.start_reduce();
  reductions_.push_back(&unit);
  if (reductions_.size() > kReductionsInFlight) finish_oldest_reduction();
}

void Runtime::finish_backward_of(Unit& unit) {
  unit.finished = true;
  if (sync_) reduce(unit);
  if (unit.is_root()) return;  // the root stays whole: in backward it is used first and last
  unit.reshard();
  std::erase(live_, &unit);
  if (active_ == &unit) active_ = nullptr;
}

void Runtime::finish_oldest_reduction() {
  Unit& unit = *reductions_.front();
  reductions_.pop_front();
  mesh_->replicate().set_activity(unit.all_reduce_label());
  if (trace_) trace_->pause();
  unit.finish_reduce(all_reduce_);
  if (trace_) trace_->resume();
}

// Units with unused parameters are reduced now, in the order of the units, with what earlier passes kept and zeros for
// what never came.
void Runtime::end_backward() {
  const NoInterceptScope quiet;
  for (const auto& unit : units_)
    if (!unit->finished) finish_backward_of(*unit);
  if (trace_) trace_->end_backward();
  while (!reductions_.empty()) finish_oldest_reduction();
  backward_pass_ = -1;
}

void Runtime::reshard_all() {
  active_ = nullptr;
  live_.clear();
  for (const auto& unit : units_) unit->reshard();
}

void Runtime::abort_run(bool peers_lost) noexcept {
  running_ = false;
  backward_pass_ = -1;
  order_.forget();
  broken_ = broken_ || peers_lost;
  if (peers_lost) return;  // buffers may still be written by messages on their way
  try {
    reductions_.clear();  // drop_gradients() waits for what is on its way
    reshard_all();
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
    reshard_all();
    throw;
  }
  if (write_back) for_each_flat([](FlatParameter& flat) { flat.keep_shard_of_unsharded(); });
  reshard_all();
}

void Runtime::drop_gradients() {
  for_each_flat([](FlatParameter& flat) {
    flat.drop_gradients();
    for (const ModuleParameter& p : flat.parameters()) p.tensor.mutable_grad().reset();
  });
}

}  // namespace shoal::fsdp
