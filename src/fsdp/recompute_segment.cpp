#include "fsdp/recompute_segment.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "fsdp/recompute_replay.h"
#include "fsdp/recompute_rules.h"

namespace shoal::fsdp {
namespace {

using torch_internals::SavedTensor;
using torch_internals::version_of;
using torch_internals::without_history;

class Kept final : public SavedTensor {
 public:
  Kept(const at::Tensor& tensor, std::string unit, const c10::OperatorHandle& op)
      : tensor_(without_history(tensor)), version_(version_of(tensor)), unit_(std::move(unit)), op_(op) {}

  at::Tensor restore() override {
    SHOAL_CHECK(version_of(tensor_) == version_, OptionError,
                "a tensor that operator {} of unit '{}' needs in backward was changed in place after its forward",
                op_.operator_name().name, unit_);
    return tensor_;
  }

 private:
  at::Tensor tensor_;
  std::int64_t version_;
  std::string unit_;
  c10::OperatorHandle op_;
};

// Which call, if any, must be played for a dropped tensor.
int source_of(const DroppedTensor& dropped) { return dropped.view ? dropped.view->result.call : dropped.call; }

void need(SegmentRecord& record, int call) {
  if (call >= 0) record.notes[static_cast<std::size_t>(call)].needed = true;
}

}  // namespace

void plan(SegmentRecord& record) noexcept {
  for (CallNote& note : record.notes) note.needed = false;
  int last = -1;
  for (const DroppedTensor& dropped : record.dropped) {
    if (!dropped.wanted) continue;
    need(record, source_of(dropped));
    last = std::max(last, dropped.call);
  }
  for (int call = last; call >= 0; --call) {
    CallNote& note = record.notes[static_cast<std::size_t>(call)];
    const RecordedCall& recorded = record.tape.calls()[static_cast<std::size_t>(call)];
    note.needed = note.ran && (note.needed || (!note.kept && traits_of(recorded.op()).has_effects));
    if (!note.needed || note.kept) continue;
    for (const TensorRef& ref : recorded.refs()) need(record, ref.call);
  }
  for (CallNote& note : record.notes)
    if (!note.needed) note.results.clear();
}

void refuse_replay(const std::string& unit, const std::string& op, const std::string& reason) {
  throw OptionError(
      "unit '{}' cannot be recomputed: operator {} {}; use --activation-checkpoint none, or a --wrap that leaves this "
      "module out",
      unit, op, reason);
}

std::unique_ptr<SavedTensor> keep_by_reference(const at::Tensor& tensor, const std::string& unit,
                                               const c10::OperatorHandle& op) {
  return std::make_unique<Kept>(tensor, unit, op);
}

class Segment::Ticket final : public SavedTensor {
 public:
  Ticket(std::shared_ptr<Segment> segment, std::size_t index) : segment_(std::move(segment)), index_(index) {}
  ~Ticket() override { segment_->give_up(index_); }
  at::Tensor restore() override { return segment_->give(index_); }

 private:
  std::shared_ptr<Segment> segment_;
  std::size_t index_;
};

Segment::Segment(std::string unit, at::Device device)
    : record_{.unit = std::move(unit), .device = device, .random = RandomState::current(device)} {}

std::unique_ptr<SavedTensor> Segment::drop(DroppedTensor dropped) {
  record_.dropped.push_back(std::move(dropped));
  return std::make_unique<Ticket>(shared_from_this(), record_.dropped.size() - 1);
}

at::Tensor Segment::give(std::size_t index) {
  const std::lock_guard lock(mutex_);
  SHOAL_CHECK(record_.dropped[index].wanted, OptionError,
              "backward went through unit '{}' a second time, but what it recomputes is gone after the first; use "
              "--activation-checkpoint none, or call backward() once for a forward",
              record_.unit);
  if (!std::exchange(replayed_, true)) replay(record_);
  DroppedTensor& dropped = record_.dropped[index];
  SHOAL_CHECK(dropped.tensor.defined(), InternalError, "the replay of unit '{}' failed before", record_.unit);
  SHOAL_CHECK(version_of(dropped.tensor) == dropped.version, OptionError,
              "a tensor that an operator of unit '{}' needs in backward was changed in place later in its forward",
              record_.unit);
  dropped.wanted = false;
  return std::exchange(dropped.tensor, {});
}

void Segment::give_up(std::size_t index) {
  const std::lock_guard lock(mutex_);
  record_.dropped[index].wanted = false;
  record_.dropped[index].tensor.reset();
}

}  // namespace shoal::fsdp
