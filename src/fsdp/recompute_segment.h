// A segment: the operators of one unit in one forward pass, and what stands for the tensors that they saved.
//
// What an operator saves is
//   - kept by reference, where it is a parameter or came from outside the segment: that memory is there anyway;
//   - else dropped. The first such tensor that backward asks for has the segment replayed, from its first operator to
//     the last that saved something; each tensor is then given out once.
// Under "selective" the results of expensive operators, and what these made for themselves, are kept as well. Operators
// whose results backward does not need are not replayed, unless they write in place or draw random numbers.
//
// Tensors made inside the segment may be written in place. So may those from outside that need no gradient (running
// statistics, counters): they are copied before the first write, and the replay works on the copy. These are
// OptionErrors that name the unit, the operator and the remedy:
//   - an operator that writes to a parameter, or to a tensor from outside that needs a gradient (the unit's input);
//   - an operator with an argument that has a state of its own (an object, a storage);
//   - a tensor from outside that somebody changed in place before the replay;
//   - a replay that saves another number of tensors than the forward pass did;
//   - a second backward pass through the segment, which is gone after the first.
// Numbers that an operator gave to the host (item(), sizes) are in the arguments of later operators as they were, which
// is right, since a replay computes the same ones. What code writes into a tensor past the dispatcher (through
// data_ptr()) counts where the tensor is from outside or from at::empty(), and it was written before its first use.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fsdp/operator_tape.h"
#include "fsdp/recompute_random.h"
#include "fsdp/torch_internals_saved.h"

namespace shoal::fsdp {

// A tensor that was there before the segment. TensorRef::output of a reference to it is its number.
struct OutsideTensor {
  at::Tensor tensor;  // without its history; undefined where `saved` stands for it
  bool requires_grad;
  std::int64_t version;  // at its first use, by
  int first_call;
  at::Tensor copy;  // from before the segment wrote to it; undefined: it did not
  std::unique_ptr<torch_internals::SavedTensor> saved;
};

// What a replay has to know of a call on the tape.
struct CallNote {
  bool ran = false;                    // to its end
  bool kept = false;                   // its results are below: it is not replayed
  bool needed = false;                 // as plan() found
  int saved = 0;                       // tensors that it saved
  std::vector<at::Tensor> results;     // without history
  std::vector<std::int64_t> versions;  // of `results`
  std::optional<RandomState> random;   // after it, where it drew numbers and is kept
};

// A view of the memory of another call's result.
struct ResultView {
  TensorRef result;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
};

// A tensor that was saved and dropped, in the order of saving.
struct DroppedTensor {
  int call = 0, ordinal = 0;       // the ordinal-th tensor that this call saved
  std::optional<ResultView> view;  // where it is to be found when the replay comes to the call; else the call saves it
  bool wanted = true;              // backward has neither had it nor given it up
  at::Tensor tensor;               // from the replay until backward takes it, without history
  std::int64_t version = 0;        // when it was saved
};

// What is written down of a segment.
struct SegmentRecord {
  std::string unit;
  at::Device device;
  RandomState random;  // at its beginning
  OperatorTape tape;
  std::vector<CallNote> notes;  // one a call on the tape
  std::vector<OutsideTensor> outside;
  std::vector<DroppedTensor> dropped;
};

// Finds out which calls a replay needs for the tensors that are still wanted, and lets go of kept results that it
// does not need.
void plan(SegmentRecord& record) noexcept;

// OptionError: `unit` cannot be recomputed, since operator `op` did what `reason` says.
[[noreturn]] void refuse_replay(const std::string& unit, const std::string& op, const std::string& reason);

// A tensor that is kept by reference for the operator `op` that saved it. OptionError where it was changed since.
std::unique_ptr<torch_internals::SavedTensor> keep_by_reference(const at::Tensor& tensor, const std::string& unit,
                                                                const c10::OperatorHandle& op);

class Segment : public std::enable_shared_from_this<Segment> {
 public:
  Segment(std::string unit, at::Device device);

  SegmentRecord& record() { return record_; }  // empty after the replay
  bool replayed() const { return replayed_; }
  // What stands for a tensor that the running call saved; it keeps the segment alive.
  std::unique_ptr<torch_internals::SavedTensor> drop(DroppedTensor dropped);

 private:
  class Ticket;
  at::Tensor give(std::size_t index);
  void give_up(std::size_t index);

  SegmentRecord record_;
  bool replayed_ = false;
  std::mutex mutex_;  // backward may ask on several threads
};

}  // namespace shoal::fsdp
