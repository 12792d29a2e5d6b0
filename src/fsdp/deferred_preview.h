// What an operator would give, found out without values: it runs on tensors of LibTorch's "meta" device.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "fsdp/torch_internals_deferred.h"

namespace shoal::fsdp {

class Preview {
 public:
  // `arguments`: of `op`, whose tensors are all is_plain(). None where the operator needs values, where it fails, and
  // where the meta device does not know it.
  static std::optional<Preview> of(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments);

  bool reshapes_arguments() const { return reshapes_; }  // it changes the sizes or strides of an argument
  bool resizes_arguments() const { return resizes_; }    // or its storage
  bool makes_memory() const { return !fresh_.empty(); }
  std::size_t fresh_bytes() const;  // of results that share no memory with arguments

  // The results as the operator would have given them on the CPU: its arguments, views of them, and tensors in storages
  // that come from `fresh`, which is asked once for each.
  std::vector<c10::IValue> results(c10::function_ref<c10::Storage(std::size_t bytes)> fresh) const;

 private:
  struct Twin {
    at::Tensor original, twin;
    torch_internals::View view;  // as it was before
  };
  at::Tensor twin_of(const at::Tensor& tensor);
  c10::IValue argument_for_meta(const c10::IValue& value);
  void compare_arguments();
  void find_fresh();
  const Twin* sharing_memory(const at::Tensor& result) const;

  std::vector<Twin> twins_;
  std::unordered_map<const void*, c10::Storage> storages_;  // of twins, by the storage of the original
  std::vector<c10::Storage> fresh_;                         // meta
  std::vector<c10::IValue> results_;                        // meta
  bool reshapes_ = false, resizes_ = false;
};

// `value` with each defined tensor in it, also in lists, replaced by what `replace` gives.
c10::IValue with_tensors(const c10::IValue& value, c10::function_ref<at::Tensor(const at::Tensor&)> replace);

// The defined tensors in `values`, those of lists one by one.
std::vector<at::Tensor> defined_tensors(std::span<const c10::IValue> values);

}  // namespace shoal::fsdp
