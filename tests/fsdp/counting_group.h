// A group that counts what is sent through it and through the groups split from it, and what memory they give out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/process_group.h"
#include "fsdp/step_traffic.h"

namespace shoal::testing {

struct Traffic {
  int calls = 0;
  std::int64_t bytes = 0;  // that one rank brings in (all_gather, all_reduce) or gets out (reduce_scatter)
};
struct TrafficByCall : std::map<std::string, Traffic> {
  std::vector<std::string> activities;  // what each call was for, in their order
};

// What a rank sent: a gather brings N - 1 parts like its own, and a reduction sends as many.
inline fsdp::StepTraffic sent_by(TrafficByCall& traffic, const fsdp::MeshShape& mesh) {
  return {traffic["all_gather"].bytes * (mesh.shard - 1),
          (traffic["reduce_scatter"].bytes + traffic["all_to_all"].bytes) * (mesh.shard - 1),
          traffic["all_reduce"].bytes * 2 * (mesh.replicate - 1) / mesh.replicate};
}

class CountingGroup final : public comm::ProcessGroup {
 public:
  // `group` and `traffic` must outlive this.
  CountingGroup(comm::ProcessGroup& group, TrafficByCall& traffic) : group_(&group), traffic_(&traffic) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const char* backend() const override { return group_->backend(); }
  std::unique_ptr<comm::Work> all_gather(const void* send, void* recv, std::int64_t count, DType dtype) override {
    note("all_gather", count, dtype);
    return group_->all_gather(send, recv, count, dtype);
  }
  std::unique_ptr<comm::Work> reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype,
                                             comm::ReduceOp op) override {
    note("reduce_scatter", count, dtype);
    return group_->reduce_scatter(send, recv, count, dtype, op);
  }
  std::unique_ptr<comm::Work> all_reduce(void* data, std::int64_t count, DType dtype, comm::ReduceOp op) override {
    note("all_reduce", count, dtype);
    return group_->all_reduce(data, count, dtype, op);
  }
  std::unique_ptr<comm::Work> broadcast(void* data, std::int64_t count, DType dtype, int root) override {
    note("broadcast", count, dtype);
    return group_->broadcast(data, count, dtype, root);
  }
  std::unique_ptr<comm::Work> all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) override {
    note("all_to_all", count, dtype);
    return group_->all_to_all(send, recv, count, dtype);
  }
  std::shared_ptr<void> allocate(std::int64_t bytes) override {
    note("allocate", bytes, DType::uint8);
    return group_->allocate(bytes);
  }
  void barrier() override { group_->barrier(); }
  std::unique_ptr<comm::ProcessGroup> split(int color, const comm::GroupOptions& options = {}) override {
    auto part = group_->split(color, options);
    auto counting = std::make_unique<CountingGroup>(*part, *traffic_);
    counting->owned_ = std::move(part);
    return counting;
  }

 private:
  void note(const char* call, std::int64_t count, DType dtype) {
    Traffic& traffic = (*traffic_)[call];
    ++traffic.calls;
    traffic_->activities.push_back(activity());
    traffic.bytes += count * size_of(dtype);
  }

  comm::ProcessGroup* group_;
  std::unique_ptr<comm::ProcessGroup> owned_;  // of a group that was split off
  TrafficByCall* traffic_;
};

}  // namespace shoal::testing
