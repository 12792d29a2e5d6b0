// Deferred initialisation of any torch::nn::Module, its source untouched: a model that is larger than a rank's memory
// is built on every rank, and whole on none.
//
//   fsdp::DeferredInit deferred;
//   deferred.record([&] { model = std::make_shared<MyModel>(); });             // takes no memory to speak of
//   auto sharded = fsdp::fully_shard(model, mesh, policy, {.device = device, .deferred_init = &deferred});
//
// While `build` runs, operators that make or initialise tensors are written down instead of run; the tensors have shape
// and type, and no memory. fully_shard() makes their values, one parameter at a time, to the bit those that the
// construction would have given without deferral: also where it drew from LibTorch's global generator, whose draws are
// then made in their order. Values that are overwritten before they are read are never made.
//
// - What is asked for by value is made at once, with what it depends on: item(), equal(), printing, an index by a mask.
// - Small tensors (1 MiB) that depend on nothing random are made as ever, and may be filled through pointers and
//   accessors. Of others LibTorch throws when their data_ptr() is asked for.
// - The module is built on the CPU. Tensors of other devices are made at once; so leave to(device) to
//   FullyShardOptions::device. After record() and before fully_shard() no operator may be called on its tensors.
// - Generators that `build` drew from are left in a state that depends on what they were seeded with and on what was
//   drawn, but is not the one in which construction without deferral leaves them. Their state must not be read by
//   other means than drawing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace shoal::fsdp {

class DeferredRecorder;

// For one thread. Threads of one process take turns in record(), as LibTorch's global generator is theirs together:
// where ranks are threads, `build` seeds it itself, and does not communicate.
class DeferredInit {
 public:
  DeferredInit();
  ~DeferredInit();
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

  // Runs `build`, in which modules are constructed and initialised. May be called again, to go on.
  void record(const std::function<void()>& build);

  // Whether `tensor` waits for its values.
  bool is_deferred(const at::Tensor& tensor) const;
  // The values of a deferred tensor, of its sizes and type, in memory of their own on the CPU. The tensor itself stays
  // as it is. At most what the values depend on is in memory at a time; in the order of construction draws from a
  // generator that several tensors share are made once, in any other at most twice.
  at::Tensor values(const at::Tensor& tensor) const;
  // All tensors that wait for their values and still belong to somebody get them.
  void fill_rest() const;

  // The same on two ranks where values() are the same: of operators, arguments and generators.
  std::uint64_t fingerprint() const;

 private:
  std::unique_ptr<DeferredRecorder> recorder_;
};

}  // namespace shoal::fsdp
