#include "fused/operators.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/parameter_owner.h"

namespace shoal::fused {
namespace {

thread_local bool g_meta_is_gpu = false;

bool has_kernel_type(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

}  // namespace

MetaIsGpu::MetaIsGpu(bool is_gpu) : outer_(std::exchange(g_meta_is_gpu, is_gpu)) {}
MetaIsGpu::~MetaIsGpu() { g_meta_is_gpu = outer_; }

bool is_for_kernels(const at::Tensor& x) {
  return (x.is_cuda() || (x.is_meta() && g_meta_is_gpu)) && has_kernel_type(x);
}

bool are_like(const at::Tensor& x, std::initializer_list<at::Tensor> others) {
  return std::all_of(others.begin(), others.end(), [&](const at::Tensor& other) {
    return other.device() == x.device() && other.scalar_type() == x.scalar_type();
  });
}

DType dtype_of(const at::Tensor& x) {
  SHOAL_ASSERT(has_kernel_type(x));
  if (x.scalar_type() == at::kFloat) return DType::float32;
  return x.scalar_type() == at::kHalf ? DType::float16 : DType::bfloat16;
}

bool records_gradient(std::initializer_list<at::Tensor> inputs) {
  return at::GradMode::is_enabled() && std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& input) {
           return input.defined() && input.requires_grad();
         });
}

at::Tensor empty_gradient(const at::Tensor& parameter) {
  const auto* const memory = parameter.has_storage() ? &parameter.storage().data_ptr() : nullptr;
  auto* const owner = memory ? memory->cast_context<ParameterOwner>(&lent_by_owner) : nullptr;
  if (owner == nullptr || !parameter.is_contiguous()) return at::empty(parameter.sizes(), parameter.options());
  const std::int64_t begin = parameter.storage_offset() * parameter.element_size();
  void* const place = owner->gradient_place(begin, static_cast<std::int64_t>(parameter.nbytes()));
  if (place == nullptr) return at::empty(parameter.sizes(), parameter.options());
  return at::for_blob(place, parameter.sizes())
      .options(parameter.options())
      .target_device(parameter.device())
      .make_tensor();
}

DeviceScope::DeviceScope(const at::Tensor& x) : has_memory_(!x.is_meta()) {
  if (!has_memory_) return;
  guard_.reset_device(x.device());
  stream_ = c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device()).native_handle();
}

}  // namespace shoal::fused
