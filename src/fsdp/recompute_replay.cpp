#include "fsdp/recompute_replay.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {
namespace {

using torch_internals::SavedTensor;
using torch_internals::version_of;
using torch_internals::without_history;

// The graph that a replay makes is never walked backward.
class Nothing final : public SavedTensor {
  at::Tensor restore() override { throw InternalError("backward through the graph of a replay"); }
};

class Replay final : public torch_internals::TensorSaver {
 public:
  explicit Replay(SegmentRecord& record);
  void run();
  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override;

 private:
  void find_last_uses();
  void play(std::size_t call);
  void use_kept(std::size_t call);
  void take_views(std::size_t call);
  void release_after(std::size_t call);
  at::Tensor& tensor_of(const TensorRef& ref);
  at::Tensor outside(const OutsideTensor& outside) const;
  [[noreturn]] void refuse(std::size_t call, const std::string& reason) const;
  const RecordedCall& recorded(std::size_t call) const { return record_->tape.calls()[call]; }

  SegmentRecord* record_;
  std::vector<std::vector<at::Tensor>> results_;    // of each call
  std::vector<at::Tensor> outside_;                 // what stands for each tensor from outside
  std::vector<std::vector<std::size_t>> released_;  // after each call: the calls whose results nobody needs any more
  std::size_t call_ = 0, next_ = 0;                 // being played; the dropped tensor that is looked for
  int saved_ = 0;                                   // by call_ so far
};

Replay::Replay(SegmentRecord& record) : record_(&record) {
  plan(record);
  results_.resize(record.notes.size());
  released_.resize(record.notes.size());
  outside_.resize(record.outside.size());
  find_last_uses();
}

void Replay::find_last_uses() {
  std::vector<std::size_t> last(record_->notes.size());
  const auto used = [&](const TensorRef& ref, std::size_t by) {
    if (ref.made()) last[static_cast<std::size_t>(ref.call)] = std::max(last[static_cast<std::size_t>(ref.call)], by);
  };
  for (std::size_t call = 0; call < last.size(); ++call) {
    last[call] = std::max(last[call], call);
    if (!record_->notes[call].needed || record_->notes[call].kept) continue;
    for (const TensorRef& ref : recorded(call).refs()) used(ref, call);
  }
  for (const DroppedTensor& dropped : record_->dropped)
    if (dropped.view && dropped.wanted) used(dropped.view->result, static_cast<std::size_t>(dropped.call));
  for (std::size_t call = 0; call < last.size(); ++call) released_[last[call]].push_back(call);
}

void Replay::run() {
  for (std::size_t call = 0; call < record_->notes.size(); ++call) {
    if (record_->notes[call].kept) {
      use_kept(call);
    } else if (record_->notes[call].needed) {
      play(call);
    }
    take_views(call);
    release_after(call);
  }
}

void Replay::play(std::size_t call) {
  call_ = call;
  saved_ = 0;
  const torch_internals::SaveScope saving(*this);
  results_[call] = recorded(call).play([this](const TensorRef& ref) { return tensor_of(ref); });
  if (saved_ != record_->notes[call].saved)
    refuse(call,
           fmt::format("saved {} tensors when it was replayed, and {} before", saved_, record_->notes[call].saved));
}

void Replay::use_kept(std::size_t call) {
  CallNote& note = record_->notes[call];
  if (note.random) note.random->restore();
  for (std::size_t i = 0; i < note.results.size(); ++i)
    if (note.results[i].defined() && version_of(note.results[i]) != note.versions[i])
      refuse(call, "is selected to keep its result, which was changed in place outside of the unit");
  results_[call] = std::move(note.results);
}

// Called while an operator runs: in the forward pass's order, so that one cursor finds each tensor's place.
std::unique_ptr<SavedTensor> Replay::save(const at::Tensor& tensor) {
  const auto place = std::pair(static_cast<int>(call_), saved_++);
  auto& dropped = record_->dropped;
  while (next_ < dropped.size() && std::pair(dropped[next_].call, dropped[next_].ordinal) < place) ++next_;
  if (next_ < dropped.size() && std::pair(dropped[next_].call, dropped[next_].ordinal) == place &&
      dropped[next_].wanted) {
    dropped[next_].tensor = without_history(tensor);
    dropped[next_].version = version_of(tensor);
  }
  return std::make_unique<Nothing>();
}

void Replay::take_views(std::size_t call) {
  const torch_internals::NoInterceptScope quiet;
  const at::NoGradGuard no_grad;
  const auto [begin, end] =
      std::equal_range(record_->dropped.begin(), record_->dropped.end(), DroppedTensor{.call = static_cast<int>(call)},
                       [](const DroppedTensor& a, const DroppedTensor& b) { return a.call < b.call; });
  for (auto dropped = begin; dropped != end; ++dropped) {
    if (!dropped->view || !dropped->wanted) continue;
    const ResultView& view = *dropped->view;
    dropped->tensor = without_history(tensor_of(view.result)).as_strided(view.sizes, view.strides, view.offset);
    dropped->version = version_of(dropped->tensor);
  }
}

void Replay::release_after(std::size_t call) {
  for (const std::size_t done : released_[call]) results_[done].clear();
}

// The tensor that stands for `ref`, with or without a history as the operator had it then: whoever gave or took it
// past the dispatcher (a custom autograd function, detach_()) is not replayed.
at::Tensor& Replay::tensor_of(const TensorRef& ref) {
  const auto output = static_cast<std::size_t>(ref.output);
  at::Tensor* tensor = nullptr;
  if (ref.made()) {
    auto& results = results_[static_cast<std::size_t>(ref.call)];
    if (output >= results.size() || !results[output].defined())
      refuse(static_cast<std::size_t>(ref.call), "gave fewer tensors when it was replayed than before");
    tensor = &results[output];
  } else {
    tensor = &outside_[output];
    if (!tensor->defined()) *tensor = outside(record_->outside[output]);
  }
  if (tensor->requires_grad() != ref.requires_grad)
    *tensor = ref.requires_grad ? torch_internals::with_unknown_history(*tensor) : without_history(*tensor);
  return *tensor;
}

at::Tensor Replay::outside(const OutsideTensor& outside) const {
  if (outside.copy.defined()) return outside.copy;
  if (outside.saved) return outside.saved->restore();
  if (version_of(outside.tensor) != outside.version)
    refuse(static_cast<std::size_t>(outside.first_call),
           "was given a tensor from outside of the unit that was changed in place before backward came to it");
  return without_history(outside.tensor);
}

void Replay::refuse(std::size_t call, const std::string& reason) const {
  refuse_replay(record_->unit, recorded(call).name(), reason);
}

// Lets go of what only a replay needs.
void empty(SegmentRecord& record) {
  record.tape = {};
  record.notes.clear();
  record.outside.clear();
}

}  // namespace

void replay(SegmentRecord& record) {
  const RandomState now = RandomState::current(record.device);
  try {
    record.random.restore();
    Replay(record).run();
  } catch (...) {
    now.restore();
    empty(record);
    throw;
  }
  now.restore();
  empty(record);
}

}  // namespace shoal::fsdp
