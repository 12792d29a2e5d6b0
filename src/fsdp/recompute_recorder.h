// Writing a segment down while its operators run.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fsdp/recompute_rules.h"
#include "fsdp/recompute_segment.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

// For one thread, from the segment's first operator to its last. The segment stays for backward.
class SegmentRecorder final : public torch_internals::TensorSaver {
 public:
  // `selective`: results of expensive operators are kept. `input_saver`: keeps what came from outside; null: it is
  // held.
  SegmentRecorder(std::string unit, at::Device device, bool selective, torch_internals::TensorSaver* input_saver);
  ~SegmentRecorder() override;

  // Runs the operator. OptionError where it cannot be replayed.
  void run(torch_internals::OperatorCall& call);
  // Whether `call` is the operator that the segment began with, on the same parameter.
  bool begins_again(const torch_internals::OperatorCall& call) const;
  bool was_replayed() const { return segment_->replayed(); }

  std::unique_ptr<torch_internals::SavedTensor> save(const at::Tensor& tensor) override;

 private:
  using Arguments = std::span<const c10::IValue>;
  struct Place {  // of a result
    int call, output;
  };

  void append(const c10::OperatorHandle& op, const OperatorTraits& traits, Arguments arguments);
  TensorRef outside(const at::Tensor& tensor);
  bool is_outside(const at::Tensor& tensor) const;
  void hand_over_inputs() noexcept;
  void before_write(const at::Tensor& tensor);
  void copy_before_write(std::size_t outside);
  void finish_call(const OperatorTraits& traits, Arguments results);
  bool is_view_of_argument(const at::Tensor& tensor) const;
  std::optional<ResultView> as_view_of_argument(const at::Tensor& tensor) const;
  [[noreturn]] void refuse(const std::string& reason) const;

  std::shared_ptr<Segment> segment_;
  SegmentRecord* record_;
  bool selective_;
  torch_internals::TensorSaver* input_saver_;
  const c10::OperatorHandle* op_ = nullptr;               // that runs
  std::unordered_map<const void*, TensorRef> arguments_;  // by storage, of a call whose results are to be kept
  std::optional<c10::OperatorHandle> first_op_;
  const c10::TensorImpl* first_parameter_ = nullptr;

  // Tensors from outside, by tensor and by memory. The tensors themselves are held, so that addresses stay theirs.
  std::vector<at::Tensor> originals_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> outside_by_tensor_;
  std::unordered_map<const void*, std::size_t> outside_by_storage_;  // the first with this memory
  std::unordered_set<const void*> shared_storages_;                  // of several tensors from outside
  std::unordered_map<const void*, Place> kept_by_storage_;
};

}  // namespace shoal::fsdp
