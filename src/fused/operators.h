// What the registered operators of this layer have in common. Each is called through the dispatcher, with every
// parameter that it reads among its arguments, so that the sharding engine sees them:
//
//   fused::x()             calls the operator where its kernel takes the arguments, elsewhere reference::x()
//   shoal::x, Autograd     a torch::autograd::Function whose forward calls shoal::x again, below autograd
//   shoal::x, CUDA         allocates results, calls src/kernels
//   shoal::x_backward      the same for backward, called by the Function
//   both, Meta             the functions for CUDA: on a tensor without memory they allocate, and call no kernel
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>

#include <cstdint>
#include <initializer_list>

#include "kernels/stream.h"
#include "shard/dtype.h"

namespace shoal::fused {

// While it lives, tensors of LibTorch's meta device stand for those of a GPU on this thread: for plans of what a model
// will allocate there. Elsewhere they stand for the CPU's.
class MetaIsGpu {
 public:
  explicit MetaIsGpu(bool is_gpu);
  ~MetaIsGpu();
  MetaIsGpu(const MetaIsGpu&) = delete;
  MetaIsGpu& operator=(const MetaIsGpu&) = delete;

 private:
  bool outer_;
};

// On a GPU, in fp32, fp16 or bf16: what kernels are written for.
bool is_for_kernels(const at::Tensor& x);
// The others are like x: of its device and type.
bool are_like(const at::Tensor& x, std::initializer_list<at::Tensor> others);

DType dtype_of(const at::Tensor& x);  // of a tensor for which is_for_kernels() holds; InternalError for other types

// Grad mode is on and one of them (undefined ones are skipped) wants a gradient.
bool records_gradient(std::initializer_list<at::Tensor> inputs);

// For the gradient of `parameter`, which an operator of a backward pass has among its arguments: like it, contiguous,
// and where somebody wants it (core/parameter_owner.h). To be called once for each gradient that is returned.
at::Tensor empty_gradient(const at::Tensor& parameter);

// While it lives, x's device is the current one; stream() is the one on which LibTorch queues this thread's work there.
class DeviceScope {
 public:
  explicit DeviceScope(const at::Tensor& x);
  kernels::Stream stream() const { return stream_; }
  bool has_memory() const { return has_memory_; }  // else only shapes are wanted, and no kernel may run

 private:
  bool has_memory_;
  c10::OptionalDeviceGuard guard_;
  kernels::Stream stream_ = nullptr;
};

// "shoal::x" as a callable of the C++ signature that its schema stands for; keep it in a function's static.
template <typename Signature>
c10::TypedOperatorHandle<Signature> operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace shoal::fused
