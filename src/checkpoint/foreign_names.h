// How other frameworks name what Shoal's checkpoints hold, and what a reader of theirs gathers on its way.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/foreign_state.h"

namespace shoal::checkpoint {

// A parameter's name without what wrappers put into it: "_fsdp_wrapped_module.", "_orig_mod.",
// "_checkpoint_wrapped_module.".
std::string unwrapped(const std::string& name);

// DistributedDataParallel's and DeepSpeed's "module." in front, where every name of the model has it.
void strip_module_prefix(ForeignState& state);

// Keeps the tensors of these numbers, in this order.
void keep_tensors(ForeignState& state, const std::vector<std::size_t>& kept);

// The steps and settings that an optimizer's parts tell.
class OptimizerFacts {
 public:
  void step(double value, const std::string& name);
  void setting(const std::string& name, const std::string& value) { settings_[name].insert(value); }
  // Fills in step, optimizer and settings. CheckpointError where parameters have done different numbers of steps, of
  // which Shoal has one for all.
  void finish(ForeignState& state) const;

 private:
  std::map<double, std::string> steps_;  // and a parameter that has done so many
  std::map<std::string, std::set<std::string>> settings_;
};

}  // namespace shoal::checkpoint
