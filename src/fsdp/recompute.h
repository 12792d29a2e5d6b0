// Activation checkpointing of a module that knows nothing of it: what a unit's operators save for backward is dropped,
// and made anew when backward comes to the unit.
//
// A segment is what is recomputed at once: the operators from the first that uses a unit's parameters to the first that
// uses another unit's, or the root's. Those that use no parameters belong to the segment that is open. Operators before
// the first unit and after the last are the root's and are never recomputed. Where an operator uses the same parameter
// as the first one of the segment did, a new segment begins: a layer applied again and again is cut into its rounds.
//
// Recomputed values are those of the forward pass to the bit, dropout included: the random number generators are put
// back for the replay, and afterwards to where they were. What cannot be replayed is an OptionError that names the
// unit and the operator (recompute_segment.h).
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>

#include "fsdp/torch_internals.h"
#include "fsdp/torch_internals_saved.h"

namespace shoal::fsdp {

class SegmentRecorder;
class Unit;

// --activation-checkpoint
struct RecomputePolicy {
  int every = 0;           // each such unit is recomputed, the K-th first, in the order of the units; 0: none
  bool selective = false;  // what matrix products and attention gave is kept, only the rest is recomputed

  // "none" | "every:K" | "full" (all units but the root and those split off it by "+rest:…") | "selective" (the same
  // units); OptionError otherwise.
  static RecomputePolicy parse(const std::string& text);
};

// Follows the forward passes of one module.
class Recompute final : public torch_internals::OperatorListener {
 public:
  // `device`: whose generator is put back for a replay, beside the CPU's.
  Recompute(RecomputePolicy policy, at::Device device);
  ~Recompute() override;

  void add_unit(const Unit& unit);  // in the order of the units
  // What a recomputed unit was given goes to `saver`, which must outlive this, in the place of being held.
  void keep_inputs_by(torch_internals::TensorSaver& saver) { input_saver_ = &saver; }
  // Before an operator that uses parameters of these flat parameters.
  void before_operator(std::span<torch_internals::StorageUser* const> users);
  void call(torch_internals::OperatorCall& call) override;

 private:
  friend class RecomputeScope;
  void move_on_to(const Unit* unit);
  void leave_replayed();

  RecomputePolicy policy_;
  at::Device device_;
  torch_internals::TensorSaver* input_saver_ = nullptr;
  int units_ = 0;                               // that were added and may be recomputed
  std::unordered_set<const Unit*> recomputed_;  // those that the policy takes
  const Unit* unit_ = nullptr;                  // whose operators run; null before the first
  std::unique_ptr<SegmentRecorder> recorder_;   // of unit_, where it is recomputed
};

// null for a policy that recomputes nothing.
std::unique_ptr<Recompute> make_recompute(const std::string& policy, at::Device device);

// While it lives, forward passes of this thread are followed. `recompute` may be null. An open segment ends with it.
class RecomputeScope {
 public:
  explicit RecomputeScope(Recompute* recompute);
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  Recompute* recompute_;
  std::optional<torch_internals::ListenScope> listen_;
};

}  // namespace shoal::fsdp
