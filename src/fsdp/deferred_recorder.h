// Writes a program down instead of running it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fsdp/deferred_preview.h"
#include "fsdp/deferred_program.h"
#include "fsdp/recompute_rules.h"
#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

// For one thread. What it does with an operator of the thread that it listens to:
//  - views are made, of memory that may not be there;
//  - what depends on no deferred values, draws no random numbers and makes at most 1 MiB is run;
//  - what needs deferred values to say what it gives, what is not on the CPU and what LibTorch's meta device does not
//    know is run, after the values that it needs were made;
//  - all else is recorded. Its results have shapes and hollow storages.
class DeferredRecorder final : public torch_internals::OperatorListener {
 public:
  void call(torch_internals::OperatorCall& call) override;

  bool is_deferred(const at::Tensor& tensor) const { return memory_of(tensor).has_value(); }
  // The values of a deferred tensor, in memory of its own on the CPU.
  at::Tensor values(const at::Tensor& tensor);
  // Deferred tensors that somebody else holds get their memory.
  void fill_living();
  // Of all that the values depend on.
  std::uint64_t hash() const;

 private:
  using Arguments = std::span<const c10::IValue>;
  struct Hollow {
    c10::Storage storage;
    int memory;
  };
  std::optional<int> memory_of(const at::Tensor& tensor) const;
  bool needs_deferred(const c10::OperatorHandle& op, const OperatorTraits& traits, Arguments arguments) const;
  void run_at_once(torch_internals::OperatorCall& call, const OperatorTraits& traits);
  void record(torch_internals::OperatorCall& call, const OperatorTraits& traits, const Preview& preview);
  std::vector<DeferredProgram::Write> write_to_arguments(const c10::OperatorHandle& op, const OperatorTraits& traits,
                                                         Arguments arguments);
  int place_of(const at::Tensor& tensor, bool reads);
  std::vector<c10::IValue> make_results(const Preview& preview, DeferredProgram::Call& call);
  int make_hollow(const at::Tensor& tensor, bool keep_values);
  void fill(const Hollow& hollow);
  void note(const std::string& text);

  DeferredProgram program_;
  std::unordered_map<const void*, Hollow> hollow_;  // by storage
  std::uint64_t hash_ = 0;
};

}  // namespace shoal::fsdp
