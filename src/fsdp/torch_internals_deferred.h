// Storages whose memory is not there yet, and tensors that are all shape and no values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shoal::fsdp::torch_internals {

// Where a tensor lies in its storage.
struct View {
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;  // in elements
  at::ScalarType dtype = at::kFloat;
  bool wrapped_number = false;  // made of a C++ number, which counts less in type promotion
  bool operator==(const View&) const = default;
};
View view_of(const at::Tensor& tensor);
bool covers_storage(const at::Tensor& tensor);  // each byte of its storage belongs to one of its elements
// A tensor with a storage on the CPU whose elements are its memory as it is: dense, no subclass, not lazily negated.
bool is_plain(const at::Tensor& tensor);
at::Tensor tensor_in(const c10::Storage& storage, const View& view);

c10::Storage meta_storage(std::size_t bytes);  // for tensors of device "meta"
c10::Storage host_storage(std::size_t bytes);  // uninitialised

// Hollow storages throw a c10::Error that says `why` when their memory is asked for.
c10::Storage hollow_storage(std::size_t bytes, const std::string& why);
// Makes `storage` hollow and returns its memory.
c10::Storage take_memory(const c10::Storage& storage, const std::string& why);
// `hollow` gets the memory of `values`, which must hold at least as much and is not used any more.
void give_memory(const c10::Storage& hollow, c10::Storage values);

}  // namespace shoal::fsdp::torch_internals
