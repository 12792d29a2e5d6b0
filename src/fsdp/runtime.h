// The schedule: which units have their parameters whole, from one operator to the next.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/device_mesh.h"
#include "core/activity.h"
#include "fsdp/fully_shard.h"
#include "fsdp/recompute.h"
#include "fsdp/replica_check.h"
#include "fsdp/saved_offload.h"
#include "fsdp/torch_internals.h"
#include "fsdp/unit.h"
#include "fsdp/unit_buffers.h"
#include "fsdp/unit_order.h"
#include "fsdp/unit_schedule.h"
#include "fsdp/unit_trace.h"

namespace shoal::fsdp {

class Runtime final : public torch_internals::StorageOwner {
 public:
  Runtime(comm::DeviceMesh& mesh, const FullyShardOptions& options, at::Device device);
  ~Runtime() override;

  // Building. Takes over the values of `unit`'s parameters, which are of any mix of dtypes.
  void add_unit(const UnitMembers& unit, const InitialValues& initial_values);
  // Once, after the last unit. Collective over the mesh: gets the memory that run()s use.
  void prepare();

  void run(const std::function<void()>& body);
  void set_requires_gradient_sync(bool sync);
  void set_requires_all_reduce(bool all_reduce) { all_reduce_ = all_reduce; }
  void summon_full_params(const std::function<void()>& body, bool write_back);
  void drop_gradients();
  // Collective over the mesh. The sums over replicas that run()s left to whoever asks for a gradient are begun, all of
  // them, so that waiting for the first does not hold the others up.
  void start_replica_sums();

  comm::DeviceMesh& mesh() const { return *mesh_; }
  const FullyShardOptions& options() const { return options_; }
  bool offloads() const { return !units_.empty() && units_[0]->flats()[0]->offloaded(); }
  OffloadCopies& copies() { return buffers_.copies(); }
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  std::vector<UnitSizes> unit_sizes() const;
  std::int64_t unsynced_gradient_bytes() const;
  UnitTrace* unit_trace() const { return trace_.get(); }          // null where the options have no trace
  SavedOffload* saved_offload() const { return offload_.get(); }  // null without activation_offload
  std::int64_t pool_bytes() const { return buffers_.bytes(); }
  int unplanned_buffers() const { return buffers_.unplanned(); }  // see UnitBuffers
  template <typename F>
  void for_each_flat(F&& each) const {
    for (const auto& unit : units_)
      for (const auto& flat : unit->flats()) each(*flat);
  }

  void before_operator(std::span<torch_internals::StorageUser* const> users) override;
  void before_gradient() override;

 private:
  int kind_of_run() const;
  void run_body(const std::function<void()>& body);
  void enter(const Unit& unit) const;
  void use(Unit& unit);
  void notice_backward();
  void gradient_arrived(FlatParameter& flat, std::size_t index);
  bool intercepts() const;
  void finish_backward_of(Unit& unit);
  void start_reduction(Unit& unit);
  void finish_oldest_reduction();
  void end_backward();
  void abort_run(bool peers_lost) noexcept;

  comm::DeviceMesh* mesh_;
  FullyShardOptions options_;
  UnitBuffers buffers_;
  std::vector<std::size_t> in_flight_;  // BufferPlans::in_flight
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::string> unit_names_;
  std::vector<std::shared_ptr<void>> hooks_;
  UnitOrder order_;
  UnitSchedule schedule_;
  std::exception_ptr failure_;            // of the last operator that could not be prepared for in this run()
  std::unique_ptr<Recompute> recompute_;  // null where nothing is recomputed
  std::unique_ptr<UnitTrace> trace_;      // null where nothing is traced
  std::unique_ptr<SavedOffload> offload_;
  ReplicaCheck replica_check_;

  bool sync_ = true, all_reduce_ = false;
  bool running_ = false, broken_ = false;
  int backward_pass_ = -1;
  activity::Operation forward_ = activity::Operation::forward;  // or what run() is without gradients: a validation
  std::int64_t operator_ = 0;
  std::deque<Unit*> reductions_;    // started, oldest first
  Unit* replica_sum_of_ = nullptr;  // whose sum over the replicas, where there is one, is not waited for yet
};

}  // namespace shoal::fsdp
