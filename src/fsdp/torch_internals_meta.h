// Tensors that have a shape, a history and no memory: LibTorch's "meta" device, with a count of what they would take.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace shoal::fsdp::torch_internals {

// While it lives, the bytes that this thread's meta tensors would take are counted. One a thread at a time.
class MetaMemory {
 public:
  // A storage counts as the next multiple of `granularity` bytes: an allocator's, 1 for none.
  explicit MetaMemory(std::int64_t granularity);
  ~MetaMemory();
  MetaMemory(const MetaMemory&) = delete;
  MetaMemory& operator=(const MetaMemory&) = delete;

  std::int64_t live() const;
  std::int64_t peak() const;  // the most that live() was
  std::int64_t take_peak();   // since this was asked last

  struct Counts;

 private:
  std::shared_ptr<Counts> counts_;  // storages may outlive this
};

// While it lives, meta tensors that this thread makes stand for memory of another device and are not counted.
class UncountedScope {
 public:
  UncountedScope();
  ~UncountedScope();
  UncountedScope(const UncountedScope&) = delete;
  UncountedScope& operator=(const UncountedScope&) = delete;

 private:
  bool outer_;
};

// While it lives, operators that LibTorch has no shape function for in C++ have that of meta_shapes.h, and attention
// and dropout take the way that they take on a GPU, or on the CPU. For the whole process.
class MetaOperators {
 public:
  explicit MetaOperators(bool on_gpu);
  ~MetaOperators();
  MetaOperators(const MetaOperators&) = delete;
  MetaOperators& operator=(const MetaOperators&) = delete;

 private:
  struct Libraries;
  std::unique_ptr<Libraries> libraries_;
};

// `tensor`, and whoever else holds it, gets the memory, device, type and shape of `other`; it keeps its place in
// modules and whether it wants a gradient. It must not have been used in a graph.
void become(const at::Tensor& tensor, const at::Tensor& other);

}  // namespace shoal::fsdp::torch_internals
