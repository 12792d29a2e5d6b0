// Where a forward pass first goes wrong.
//
// Infinities are no fault by themselves: masks are made of them. An operator is blamed for one where everything that it
// was given was finite, numbers included, so that full(-inf), masked_fill(…, -inf) and what they spread to are not. It
// is blamed for a NaN where it was given none. A NaN in a parameter or in the data is blamed on the first operator that
// computes with it, "which was given" it; moving values about (views, copies, cat, index, where, …) is not computing.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

class NonfiniteFinder final : public torch_internals::OperatorListener {
 public:
  // `owner`: of the parameters whose units are named.
  explicit NonfiniteFinder(const torch_internals::StorageOwner& owner) : owner_(&owner) {}

  void call(torch_internals::OperatorCall& call) override;
  // "unit 'h.3', operator aten::div"; empty where every value was finite or meant to be infinite.
  const std::string& found() const { return found_; }

 private:
  void notice_unit(std::span<const c10::IValue> arguments);

  const torch_internals::StorageOwner* owner_;
  std::string unit_ = "(root)";  // whose parameters an operator used last
  std::string found_;
};

}  // namespace shoal::fsdp
