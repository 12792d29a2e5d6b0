#include "fsdp/recompute.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <charconv>

#include "core/check.h"
#include "fsdp/recompute_recorder.h"
#include "fsdp/unit.h"

namespace shoal::fsdp {
namespace {

const Unit* unit_of(const torch_internals::StorageUser* user) { return &static_cast<const UnitStorage*>(user)->unit(); }

}  // namespace

RecomputePolicy RecomputePolicy::parse(const std::string& text) {
  if (text == "none") return {};
  if (text == "full") return {.every = 1};
  if (text == "selective") return {.every = 1, .selective = true};
  constexpr std::string_view kEvery = "every:";
  RecomputePolicy policy;
  const char* const end = text.data() + text.size();
  if (text.starts_with(kEvery)) {
    const auto [rest, error] = std::from_chars(text.data() + kEvery.size(), end, policy.every);
    if (error == std::errc() && rest == end && policy.every > 0) return policy;
  }
  throw OptionError("--activation-checkpoint '{}' is none of: none, every:K with a whole K > 0, full, selective", text);
}

std::unique_ptr<Recompute> make_recompute(const std::string& policy, at::Device device) {
  const RecomputePolicy parsed = RecomputePolicy::parse(policy);
  return parsed.every > 0 ? std::make_unique<Recompute>(parsed, device) : nullptr;
}

Recompute::Recompute(RecomputePolicy policy, at::Device device) : policy_(policy), device_(device) {}
Recompute::~Recompute() = default;

void Recompute::add_unit(const Unit& unit) {
  if (!unit.is_root() && unit.recomputable() && ++units_ % policy_.every == 0) recomputed_.insert(&unit);
}

void Recompute::before_operator(std::span<torch_internals::StorageUser* const> users) {
  if (torch_internals::backward_pass() >= 0) return;
  leave_replayed();
  const auto of_current = [this](auto* user) { return unit_of(user) == unit_; };
  if (std::any_of(users.begin(), users.end(), of_current)) return;
  const auto within = std::find_if(users.begin(), users.end(), [](auto* user) { return !unit_of(user)->is_root(); });
  move_on_to(unit_of(within == users.end() ? users.front() : *within));
}

void Recompute::move_on_to(const Unit* unit) {
  recorder_.reset();
  unit_ = unit;
  if (unit_ == nullptr || !recomputed_.contains(unit_) || !at::GradMode::is_enabled()) return;
  recorder_ = std::make_unique<SegmentRecorder>(unit_->name(), device_, policy_.selective, input_saver_);
}

// After a backward pass within the same run() its units may go forward once more.
void Recompute::leave_replayed() {
  if (recorder_ && recorder_->was_replayed()) move_on_to(nullptr);
}

void Recompute::call(torch_internals::OperatorCall& call) {
  leave_replayed();
  if (recorder_ && recorder_->begins_again(call)) move_on_to(unit_);
  if (!recorder_) return call.run();
  recorder_->run(call);
}

RecomputeScope::RecomputeScope(Recompute* recompute) : recompute_(recompute) {
  if (recompute_ != nullptr) listen_.emplace(*recompute_);
}

RecomputeScope::~RecomputeScope() {
  if (recompute_ != nullptr) recompute_->move_on_to(nullptr);
}

}  // namespace shoal::fsdp
