// A recorded program, of which the part that one tensor depends on can be run at any later time, any number of times.
//
// The program's calls read and write memories: what a storage is to tensors. Running is what eager execution would have
// done, in the same order, but for the calls whose results do not count: what nobody reads before it is overwritten is
// never made.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "fsdp/deferred_draws.h"
#include "fsdp/operator_tape.h"
#include "fsdp/torch_internals_deferred.h"

namespace shoal::fsdp {

class DeferredProgram {
 public:
  struct Write {
    int memory;
    bool overwrites;  // nothing that was there before counts, nor is left
  };
  struct Made {  // a result with memory of its own
    int result;  // its place in tensors_among(results)
    int memory;
    torch_internals::View view;
  };
  struct Call {
    RecordedCall op;  // each TensorRef's `call` is a place
    std::vector<int> reads = {};
    std::vector<Write> writes = {};  // memories of arguments, and those made
    std::vector<Made> made = {};
    int draw = -1;  // of draws(), where it draws
  };

  DeferredProgram();
  DeferredProgram(const DeferredProgram&) = delete;
  DeferredProgram& operator=(const DeferredProgram&) = delete;

  // `given`: what it holds before any call writes to it; none: nothing that counts.
  int add_memory(std::size_t bytes, std::optional<c10::Storage> given);
  int add_place(int memory, torch_internals::View view);
  int memory_at(int place) const { return places_[static_cast<std::size_t>(place)].memory; }
  int next_call() const { return static_cast<int>(calls_.size()); }
  void append(Call call);
  DeferredDraws& draws() { return draws_; }
  const DeferredDraws& draws() const { return draws_; }

  // The contents of `memory` after all calls, in a storage on the CPU that is the caller's; it may be larger. Once it
  // is given up, it serves the next call: pages that are touched for the first time cost more than the values in them.
  c10::Storage values(int memory);

 private:
  struct Memory {
    std::size_t bytes;
    std::optional<c10::Storage> given;
    std::vector<int> writers;  // calls, ascending
  };
  struct Place {
    int memory;
    torch_internals::View view;
  };
  using Live = std::unordered_map<int, c10::Storage>;  // by memory
  class Slice;

  const Memory& memory(int number) const { return memories_[static_cast<std::size_t>(number)]; }
  const Call& call(int number) const { return calls_[static_cast<std::size_t>(number)]; }
  Live run(Slice& slice);
  void run_call(const Call& call, Live& live);
  void keep_results(const Call& call, const std::vector<at::Tensor>& results, Live& live) const;
  const c10::Storage& live_storage(int memory, Live& live) const;
  bool is_spare() const;

  std::vector<Memory> memories_;
  std::vector<Place> places_;
  std::vector<Call> calls_;
  DeferredDraws draws_;
  c10::Storage spare_;  // the largest that values() gave out of late
};

}  // namespace shoal::fsdp
