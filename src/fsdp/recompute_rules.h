// What recomputation has to know of an operator beside its arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <span>
#include <string>
#include <vector>

namespace shoal::fsdp {

struct OperatorTraits {
  // Which arguments it writes to. Beside what the schema says these are running statistics, which batch norms write to
  // without saying so.
  std::vector<bool> writes;
  bool writes_any = false;
  bool makes_tensors = false;
  bool random = false;         // draws from a generator
  bool has_effects = false;    // more than its results: it writes, draws, or is somebody else's
  bool uninitialised = false;  // its result's values come from elsewhere: at::empty() and the like
  bool expensive = false;      // matrix products, convolutions, attention: kept under "selective"
};

// Kept for each operator that this thread has called.
const OperatorTraits& traits_of(const c10::OperatorHandle& op);

// Why a call with these arguments may give something else when it is made again; empty where it may not.
std::string obstacle_to_replay(std::span<const c10::IValue> arguments);

}  // namespace shoal::fsdp
