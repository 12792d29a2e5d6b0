// An FSDP unit: the parameters that are gathered, reduced and freed together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fsdp/flat_parameter.h"

namespace shoal::fsdp {

class Unit {
 public:
  Unit(std::string fqn, int index, bool recomputable = true)
      : fqn_(std::move(fqn)),
        index_(index),
        recomputable_(recomputable),
        unshard_label_("the all-gather of unit '" + name() + "'"),
        reduce_label_("the reduce-scatter of unit '" + name() + "'"),
        all_reduce_label_("the sum over the replicas of unit '" + name() + "'") {}

  const std::string& fqn() const { return fqn_; }  // of its module; "" for the root
  std::string name() const { return fqn_.empty() ? "(root)" : fqn_; }
  const std::string& unshard_label() const { return unshard_label_; }  // for the message of a time-out
  const std::string& reduce_label() const { return reduce_label_; }
  const std::string& all_reduce_label() const { return all_reduce_label_; }
  int index() const { return index_; }
  bool is_root() const { return fqn_.empty(); }
  bool recomputable() const { return recomputable_; }  // see ModuleUnit
  std::vector<std::unique_ptr<FlatParameter>>& flats() { return flats_; }
  const std::vector<std::unique_ptr<FlatParameter>>& flats() const { return flats_; }

  bool unsharded() const;
  void start_unshard();
  void unshard();
  void reshard();
  void reshard_to_regather_group();
  void drop_regather_shards();

  bool trained() const;
  void keep_gradients();  // see FlatGradient, as for what follows
  bool keeps_gradients() const;
  void expect_gradients();
  bool gradients_missing() const;
  // One number for the memory that its gradients are sent from: where ranks differ in it, it is not the same memory.
  std::int32_t gradient_place() const;
  void leave_gradient_place();
  void start_reduce();
  void finish_reduce(bool sum_replicas);
  void start_replica_sum();
  void finish_replica_sum();

  // The number of the last operator that used the unit.
  std::int64_t last_operator = -1;
  bool awaited = false;  // gathered ahead, and not used since
  // In the current backward pass: its gradients have come, and been sent off where run()s do that.
  bool finished = false;

 private:
  std::string fqn_;
  int index_;
  bool recomputable_;
  std::string unshard_label_, reduce_label_, all_reduce_label_;
  template <typename F>
  void for_each_gradient(F&& each) const {
    for (const auto& flat : flats_)
      if (FlatGradient* gradient = flat->gradients()) each(*gradient);
  }

  std::vector<std::unique_ptr<FlatParameter>> flats_;
};

}  // namespace shoal::fsdp
