// Activation offload: what the operators of a forward pass save for backward waits in pinned host memory.
//
// Memory goes to the host that operators inside run() made, of at least 1 MiB: not parameters and views of them, nor
// what was there before run(), which has its memory anyway. It goes and comes back unit by unit (offload_shelf.h), or
// in smaller parts where a unit saves more than 256 MiB. Everything else is kept by reference. Values are the same to
// the bit, and a saved tensor that is changed in place is an error when backward needs it, as it is without offload.
//
// With activation checkpointing, what recomputed units drop is not offloaded; what they keep, their inputs, is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "fsdp/offload_shelf.h"
#include "fsdp/torch_internals.h"
#include "fsdp/torch_internals_saved.h"

namespace shoal::fsdp {

class Unit;

// Follows the forward passes of one module.
class SavedOffload final : public torch_internals::TensorSaver, public torch_internals::OperatorListener {
 public:
  // Memory of at least `least_bytes` goes to the host; smaller ones are not worth a copy of their own.
  explicit SavedOffload(at::Device device, std::size_t least_bytes = std::size_t{1} << 20);

  // Before an operator that uses parameters of these flat parameters.
  void before_operator(std::span<torch_internals::StorageUser* const> users);
  void call(torch_internals::OperatorCall& call) override;
  std::unique_ptr<torch_internals::SavedTensor> save(const at::Tensor& tensor) override;

  void set_least_bytes(std::size_t bytes) { least_bytes_ = bytes; }

  std::int64_t host_bytes() const { return shelf_->host_bytes(); }            // pinned, in use or free
  std::int64_t offloaded_bytes() const { return shelf_->offloaded_bytes(); }  // copied to the host so far

 private:
  friend class OffloadScope;
  bool is_large(const at::Tensor& tensor) const;
  bool was_made_here(const at::Tensor& tensor) const;
  void forget_pass();

  at::Device device_;
  std::size_t least_bytes_;
  std::shared_ptr<OffloadShelf> shelf_;
  torch_internals::OperatorListener* inner_ = nullptr;  // hears operators too
  const Unit* unit_ = nullptr;                          // whose operators run; null before the first
  bool in_operator_ = false;
  std::vector<const void*> arguments_;    // storages that the running operator was given
  std::unordered_set<const void*> made_;  // storages of results of operators inside this run()
};

// null where `on` is false.
std::unique_ptr<SavedOffload> make_saved_offload(bool on, at::Device device);

// While it lives, what this thread's operators save goes to `offload`, which may be null; `inner` listens to operators
// as well, or is null.
class OffloadScope {
 public:
  OffloadScope(SavedOffload* offload, torch_internals::OperatorListener* inner);
  ~OffloadScope();
  OffloadScope(const OffloadScope&) = delete;
  OffloadScope& operator=(const OffloadScope&) = delete;

 private:
  SavedOffload* offload_;
  std::optional<torch_internals::ListenScope> listen_;
  std::optional<torch_internals::SaveScope> save_;
};

}  // namespace shoal::fsdp
