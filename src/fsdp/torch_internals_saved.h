// What autograd keeps of a forward pass for backward, and who may keep something else in its place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace shoal::fsdp::torch_internals {

// Stands for a tensor that an operator saved.
class SavedTensor {
 public:
  virtual ~SavedTensor() = default;  // when backward needs the tensor no more
  // Its values, for autograd, which puts the history back itself. Runs on the thread of the backward pass.
  virtual at::Tensor restore() = 0;
};

class TensorSaver {
 public:
  virtual ~TensorSaver() = default;
  // Called for each tensor that an operator saves. It may be the operator's own result: who kept it with its history
  // would keep the graph for ever.
  virtual std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) = 0;
};

// While it lives, what operators of this thread save goes to `saver`. Scopes nest; the innermost alone is asked.
class SaveScope {
 public:
  explicit SaveScope(TensorSaver& saver);
  ~SaveScope();
  SaveScope(const SaveScope&) = delete;
  SaveScope& operator=(const SaveScope&) = delete;

 private:
  TensorSaver* outer_;
};

// `tensor` without its history: the same memory, shape and version counter.
at::Tensor without_history(const at::Tensor& tensor);
// The same as the result of an operator that nobody can walk backward through: it may be written in place, as a leaf
// may not.
at::Tensor with_unknown_history(const at::Tensor& tensor);
// Counts the operators that wrote to the tensor's memory in place; 0 for inference tensors, which do not count.
std::int64_t version_of(const at::Tensor& tensor);

// Tells whether a tensor was written to in place since this was made, without holding its memory.
class VersionWatch {
 public:
  explicit VersionWatch(const at::Tensor& tensor);
  bool changed() const;

 private:
  std::shared_ptr<void> counter_;  // null for inference tensors
  std::int64_t version_ = 0;
};

// While it lives no other storage gets the address that storage_identity() of `tensor` tells. Does not hold the memory.
std::shared_ptr<void> hold_identity(const at::Tensor& tensor);

}  // namespace shoal::fsdp::torch_internals
