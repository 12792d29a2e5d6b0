#include "fsdp/torch_internals_deferred.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <utility>

#include "core/check.h"

namespace shoal::fsdp::torch_internals {
namespace {

// See torch_internals.cpp: the only way to make a storage readable again.
template <bool c10::StorageImpl::*kMember>
struct GiveUnreadableFlag {
  friend bool& unreadable_flag(c10::StorageImpl& storage) { return storage.*kMember; }
};
bool& unreadable_flag(c10::StorageImpl& storage);
template struct GiveUnreadableFlag<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

c10::DispatchKey key_of(c10::Device device) {
  return device.is_meta() ? c10::DispatchKey::Meta : c10::DispatchKey::CPU;
}

void make_hollow(c10::StorageImpl& storage, const std::string& why) {
  storage.set_data_ptr_noswap({nullptr, at::kCPU});
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(why);
}

}  // namespace

View view_of(const at::Tensor& tensor) {
  return {.sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset(),
          .dtype = tensor.scalar_type(),
          .wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number()};
}

bool covers_storage(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && tensor.storage_offset() == 0 &&
         static_cast<std::size_t>(tensor.numel()) * tensor.element_size() == tensor.storage().nbytes();
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.has_storage() &&
         !tensor.is_quantized() && !tensor.is_conj() && !tensor.is_neg() &&
         tensor.key_set().has(c10::DispatchKey::CPU) && !tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

at::Tensor tensor_in(const c10::Storage& storage, const View& view) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(key_of(storage.device())), c10::scalarTypeToTypeMeta(view.dtype));
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(view.sizes, view.strides, view.offset);
  if (view.wrapped_number) impl->set_wrapped_number(true);
  return tensor;
}

c10::Storage meta_storage(std::size_t bytes) {
  c10::Allocator* const allocator = c10::GetAllocator(c10::kMeta);
  return {c10::Storage::use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, /*resizable=*/true};
}

c10::Storage host_storage(std::size_t bytes) {
  c10::Allocator* const allocator = c10::GetCPUAllocator();
  return {c10::Storage::use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, /*resizable=*/true};
}

c10::Storage hollow_storage(std::size_t bytes, const std::string& why) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, at::kCPU), c10::GetCPUAllocator(),
                       /*resizable=*/true);
  make_hollow(*storage.unsafeGetStorageImpl(), why);
  return storage;
}

c10::Storage take_memory(const c10::Storage& storage, const std::string& why) {
  c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
  c10::Storage memory(c10::Storage::use_byte_size_t(), impl.nbytes(), std::move(impl.mutable_data_ptr()),
                      c10::GetCPUAllocator(), /*resizable=*/true);
  make_hollow(impl, why);
  return memory;
}

void give_memory(const c10::Storage& hollow, c10::Storage values) {
  c10::StorageImpl& impl = *hollow.unsafeGetStorageImpl();
  SHOAL_ASSERT(values.nbytes() >= impl.nbytes());
  unreadable_flag(impl) = false;
  impl.set_data_ptr_noswap(std::move(values.mutable_data_ptr()));
}

}  // namespace shoal::fsdp::torch_internals
